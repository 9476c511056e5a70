"""What the candidate tree says in words: tokens made visible, tooltips, summaries, the text for screen readers.

Knows nothing of Qt or of where the words are shown.
"""

from __future__ import annotations

import html
import re
import textwrap

from app.views.figures_line import counted
from medusa_core.events import Node, NodeState, Source, Step

_NOTE_WIDTH = 56  # characters in a line of a tooltip
_MARKS = {" ": "␠", "\n": "⏎", "\t": "⇥"}
_INCOMPLETE_BYTES = re.compile(r"<[0-9A-F]{2}( [0-9A-F]{2})*>")  # how events spell them; the space is no token's
_STATES = {
    NodeState.ROOT: "The model's own choice, always kept",
    NodeState.ACCEPTED: "Kept",
    NodeState.REJECTED: "Not kept",
    NodeState.UNREACHED: "Never judged: the guess before it was not kept",
}
COLUMN_HELP = (
    "Tokens ahead, and the share of this reply's steps in which a guess that far ahead was kept. "
    "The first column is the model's own choice, which is always kept."
)
KEY_HELP = (
    "The wider an edge, the likelier the token was thought to be by who proposed it: the mark where the edge arrives. "
    "The bar in a chip is the probability that the model itself gave the token."
)
POINTING = "Point at a node, or move with ↑ ↓, for the numbers behind it."
SOURCES = {Source.HEAD: "heads", Source.LOOKUP: "lookup", Source.RECYCLING: "recycling"}
SOURCE_HELP = {
    Source.HEAD: "The Medusa heads",
    Source.LOOKUP: "What followed the same words earlier in the conversation",
    Source.RECYCLING: "What the model thought should follow when it last saw the same token",
}
_WHO = {
    Source.LOOKUP: "Looked up earlier",
    Source.RECYCLING: "Recycled from an earlier step",
}
_WHOSE = {Source.HEAD: "Head's"}
_ORDINALS = ("most likely", "second", "third")


def visible(token: str) -> str:
    """The token with its white space and unprintable characters shown; an empty one as ∅."""
    if _INCOMPLETE_BYTES.fullmatch(token):
        return token
    return "".join(_MARKS.get(ch) or (ch if ch.isprintable() else f"<{ord(ch):02X}>") for ch in token) or "∅"


def column_head(depth: int) -> str:
    """How far ahead a column guesses."""
    return "next" if depth == 0 else f"+{depth}"


def percent(share: float) -> str:
    """A share in [0, 1] for people."""
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def summary(step: Step) -> str:
    """One line under the tree. Steps count from 1 for people."""
    return f"Step {step.index + 1} · {counted(len(step.token_ids), 'token')} · {duration(step.seconds)}"


def timing(step: Step) -> str:
    """Where the step's time went."""
    parts = (("draft", step.draft_seconds), ("verify", step.verify_seconds), ("accept", step.accept_seconds))
    return " · ".join(f"{name} {duration(seconds)}" for name, seconds in parts)


def duration(seconds: float) -> str:
    """A time in the unit that reads best."""
    if seconds < 0.0095:
        return f"{1000 * seconds:.1f} ms"
    return f"{1000 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def description(step: Step) -> str:
    """The tree as a sentence: "Step 12: 3 of 4 guesses kept: ' the', ' cat', ' sat'"."""
    deepest = max(node.depth for node in step.nodes)
    kept = [f"'{step.nodes[index].text}'" for index in step.path[1:]]
    if not deepest:
        why = f" ({step.note})" if step.note else ""
        return f"Step {step.index + 1}: no guesses; the model wrote '{step.nodes[0].text}'{why}"
    sentence = f"Step {step.index + 1}: {len(kept)} of {deepest} guesses kept"
    end = "" if step.stop_node is None else ", which ended the reply"
    return sentence + (f": {', '.join(kept)}{end}" if kept else "")


def tooltip(node: Node, *, ended_reply: bool = False, note: str = "") -> str:
    """All that is known of a node, as rich text: its numbers, why it was kept or not, and what was noted of it."""
    lines = [f"<b><code>{html.escape(visible(node.text))}</code></b> &nbsp;id {node.token_id}"]
    facts = [*_facts(node, ended_reply=ended_reply), *textwrap.wrap(note, _NOTE_WIDTH)]
    lines += [html.escape(line, quote=False) for line in facts]
    return "<qt><p style='white-space:pre'>" + "<br>".join(lines) + "</p></qt>"


def details(step: Step, index: int) -> str:
    """The same in one line of plain text, for the place under the tree and for screen readers."""
    node = step.nodes[index]
    facts = _facts(node, ended_reply=index == step.stop_node)
    return " · ".join((visible(node.text), *facts, *([step.note] if index == 0 and step.note else [])))


def _facts(node: Node, *, ended_reply: bool) -> list[str]:
    lines = [_state_line(node) + (": it ended the reply" if ended_reply else "")]
    if node.depth:
        lines.append(_place(node))
    if node.draft_probability is not None:
        lines.append(f"{_WHOSE.get(node.source, 'Estimated')} probability: {percent(node.draft_probability)}")
    return lines + _judgement(node)


def _place(node: Node) -> str:
    order = _ORDINALS[node.rank] if node.rank < len(_ORDINALS) else f"{node.rank + 1}th"
    who = f"Head {node.depth}" if node.source is Source.HEAD else _WHO.get(node.source, "The model")
    return f"{who}, {order} guess, {counted(node.depth, 'token')} ahead"


def _state_line(node: Node) -> str:
    words = _STATES[node.state]
    if node.state is NodeState.REJECTED and node.verdict is not None and node.verdict.passed:
        words += ": it passed, but another path was longer or likelier, or the reply was at its limit"
    return words


def _judgement(node: Node) -> list[str]:
    verdict = node.verdict
    probability = verdict.probability if verdict is not None else None
    if probability is None:
        probability = node.model_probability
    lines = [] if probability is None else [f"Model's probability: {percent(probability)}"]
    if verdict is None:
        return lines
    if verdict.threshold is not None:
        lines.append(f"Needed: more than {percent(verdict.threshold)}")
    if verdict.entropy is not None:
        lines.append(f"Entropy here: {verdict.entropy:.2f} nats")
    if verdict.drawn is not None:
        drawn = "this token" if verdict.drawn == node.token_id else visible(verdict.drawn_text)
        lines.append(f"Drawn here: {drawn}")
    elif verdict.choice_text and verdict.choice != node.token_id:
        lines.append(f"The model wanted {visible(verdict.choice_text)}")
    return lines
