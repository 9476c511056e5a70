"""What is said of a reply under its charts: how its prompt was read, and how it ended. Knows nothing of Qt."""

from __future__ import annotations

from app.views.figures_line import counted, grouped
from app.views.tree_words import duration
from medusa_core.events import Finished, Prefilled, StopReason

ENDINGS = {
    StopReason.STOP: "ended by the model",
    StopReason.LENGTH: "length limit reached",
    StopReason.CANCELLED: "stopped",
    StopReason.CONTEXT_FULL: "context full",
}


def prompt_line(event: Prefilled) -> str:
    """How long the prompt was, and how long it took."""
    kept = f", {grouped(event.reused_tokens)} of them kept from before" if event.reused_tokens else ""
    return f"Prompt {counted(event.prompt_tokens, 'token')}{kept} · read in {duration(event.seconds)}"


def reply_line(event: Finished) -> str:
    """How long the reply was, and why it ended."""
    size = f"Reply {counted(event.tokens, 'token')} in {counted(event.steps, 'step')}"
    return f"{size} · {duration(event.decode_seconds)} · {ENDINGS[event.reason]}"
