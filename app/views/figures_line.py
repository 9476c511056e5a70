"""The figures of a reply in one line for people. Knows nothing of widgets."""

from __future__ import annotations

from app.conversations import Figures, MessageState
from medusa_core.events import StopReason

_ENDINGS = {
    StopReason.LENGTH: "cut at the longest reply allowed",
    StopReason.CONTEXT_FULL: "cut: the context is full",
}
# As wide as most of them: room for it is kept from the beginning of a reply.
USUAL = Figures("", "exact sampling", None, 888, 88.8, 2.88, 8.88)


def grouped(number: int) -> str:
    """A whole number with thin spaces between its thousands."""
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{grouped(number)} {noun if number == 1 else noun + 's'}"


def figures_line(figures: Figures, state: MessageState = MessageState.COMPLETE) -> str:
    """Tokens, speed, tokens per step, rule, time to the first token, and how it ended where that is not its own end."""
    parts: list[str] = []
    if figures.tokens:
        parts += [counted(figures.tokens, "token"), f"{figures.tokens_per_second:.1f} tokens/s"]
        parts.append(f"{figures.tokens_per_step:.2f} tokens per step")
    if figures.rule:
        parts.append(figures.rule)
    if figures.tokens and figures.first_token_seconds is not None:
        parts.append(f"first token {figures.first_token_seconds:.2f} s")
    if ending := ending_words(figures.ending, state):
        parts.append(ending)
    return " · ".join(part.replace(" ", "\u00a0") for part in parts)


def ending_words(ending: str, state: MessageState) -> str:
    """Why a reply is not whole; "" where it is."""
    if state is MessageState.STOPPED:
        return "stopped"
    if state is MessageState.CUT:
        return _ENDINGS.get(StopReason(ending), "cut") if ending in set(StopReason) else "cut: it broke off"
    return ""


def details_of(figures: Figures) -> str:
    """What it takes to have the reply again, a line for each."""
    lines = [f"Model: {figures.model}"] if figures.model else []
    lines += [f"Acceptance: {figures.rule}"] if figures.rule else []
    return "\n".join([*lines, f"Seed: {figures.seed}"] if figures.seed is not None else lines)
