"""What happened, as plain data: one frozen record an event, made of ints, floats, strings and tuples.

Every long operation of the library is a generator of these. The app draws them, the command line prints them, the
metrics fold them, a log of them replays without a model. Knows nothing of tensors, tokenizers or Qt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from medusa_core.errors import ConfigError


class NodeState(StrEnum):
    """What became of a node of the candidate tree in its step."""

    ROOT = "root"  # the model's own choice of the step before; always kept
    ACCEPTED = "accepted"  # on the path that was kept
    REJECTED = "rejected"  # its parent was reached, but it was not kept
    UNREACHED = "unreached"  # its parent was not kept, so it was never judged


class Source(StrEnum):
    """Who proposed a node."""

    MODEL = "model"  # the root: chosen by the model itself
    HEAD = "head"
    LOOKUP = "lookup"  # what followed the same words earlier in the conversation
    RECYCLING = "recycling"  # what the model thought should follow when it last saw the same token


class StopReason(StrEnum):
    """Why a reply ended."""

    STOP = "stop"  # the model wrote a stop token
    LENGTH = "length"  # max new tokens reached
    CANCELLED = "cancelled"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The numbers a tried node was judged by; probabilities are the model's at the node's parent.

    A number is None where the rule did not need it and nobody asked for it (greedy without `explain`).
    """

    passed: bool  # the rule's own test; a node can pass and still lose to a longer path
    probability: float | None  # p(token | parent), after temperature
    threshold: float | None  # typical acceptance: min(epsilon, delta * exp(-entropy))
    entropy: float | None  # of the model's distribution at the parent, in nats
    choice: int | None  # the model's own most likely token id at the parent
    choice_text: str = ""
    drawn: int | None = None  # sampling: the token id drawn at the parent
    drawn_text: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a step's candidate tree. Nodes are in topological order; node 0 is the root, its own parent."""

    token_id: int
    parent: int
    depth: int  # 0 for the root; depth d is d tokens ahead of it
    rank: int  # 0-based rank among the guesses of its source; 0 for the root
    source: Source
    state: NodeState
    draft_probability: float | None  # what its source thought of it; None for the root
    model_probability: float | None  # what the model thought of it; None where nobody asked
    verdict: Verdict | None  # None for the root and for nodes never reached
    text: str = ""  # the token's text; bytes of an incomplete character as <E2 9F>


@dataclass(frozen=True, slots=True)
class Progress:
    """Part of a long operation is done. `total` is 0 where the end is not known."""

    stage: str  # what is being done, as a phrase for people: "Converting the model"
    done: float
    total: float
    unit: str = ""  # "tokens", "bytes", ...


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt has been read; decoding starts."""

    prompt_tokens: int  # with the tokens that the reply was told to begin with
    reused_tokens: int  # prompt tokens whose cache rows were kept from the turn before
    context_size: int  # tokens the model can hold
    seconds: float
    text: str = ""  # of the tokens that the reply was told to begin with, as far as they make whole characters
    opened: str = ""  # the tag of thinking that the prompt ends with, its brackets left out: the reply begins inside it


@dataclass(frozen=True, slots=True)
class Step:
    """One decoding step: one verification pass over one candidate tree."""

    index: int  # 0-based, within the reply
    nodes: tuple[Node, ...]
    path: tuple[int, ...]  # node indices of the kept path, root first; a stop token that ended the reply is its last
    token_ids: tuple[int, ...]  # what the step added to the reply: the path without that stop token
    context_tokens: int  # tokens in the context after this step
    seconds: float  # whole step, wall time
    draft_seconds: float
    verify_seconds: float
    accept_seconds: float
    text: str = ""  # text released by this step (whole characters only)
    spans: tuple[tuple[int, int], ...] = ()  # per token of token_ids: its characters [start, end) in the whole reply
    note: str = ""  # one sentence for people where the drafter chose to guess nothing

    @property
    def stop_node(self) -> int | None:
        """The node of the guessed stop token that ended the reply, if one did."""
        return self.path[-1] if len(self.path) > len(self.token_ids) else None


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply has ended. The last event of every reply."""

    reason: StopReason
    token_ids: tuple[int, ...]  # the whole reply, with what it was told to begin with; so is its text
    text: str
    tail: str  # text released only now (bytes of a character that never became whole); usually ""
    tokens: int  # that its steps wrote
    steps: int
    tokens_per_step: float
    tokens_per_second: float  # decoding only, prefill apart
    acceptance_per_head: tuple[float, ...]  # share of steps in which at least k guesses were kept, k = 1, 2, ...
    prompt_tokens: int
    prefill_seconds: float
    decode_seconds: float
    message: str = ""  # one sentence for people where the end was not the model's own


@dataclass(frozen=True, slots=True)
class HeadFit:
    """How well one head predicts, in [0, 1]."""

    top1: float
    top5: float


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One report from a training loop."""

    step: int
    total_steps: int
    loss: float
    learning_rate: float
    seconds: float
    heads: tuple[HeadFit, ...] = ()  # on held-out replies; empty between evaluations


Event = Progress | Prefilled | Step | Finished | TrainingStep

_KINDS: dict[str, type[Any]] = {
    "progress": Progress,
    "prefilled": Prefilled,
    "step": Step,
    "finished": Finished,
    "training_step": TrainingStep,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in (*_NAMES, Node, Verdict, HeadFit)}
# JSON leaves them as they are, but `str.splitlines` would cut an event's line there.
_OTHER_LINE_ENDS = str.maketrans({"\x85": r"\u0085", "\u2028": r"\u2028", "\u2029": r"\u2029"})


def to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON-ready data, its kind under the key `event`."""
    return {"event": _NAMES[type(event)], **_record(event)}


def _record(event: Any) -> dict[str, Any]:
    """As `dataclasses.asdict`, which copies every number and every text: a reply's steps are saved as they come."""
    return {name: _plain(getattr(event, name)) for name in _FIELDS[type(event)]}


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _FIELDS:
        return _record(value)
    return tuple(map(_plain, value)) if kind is tuple else value


def from_dict(data: Any) -> Event:
    """The event that `to_dict` wrote. Raises ConfigError for an unknown kind or wrong fields."""
    if not isinstance(data, dict):
        raise ConfigError(f"not an event: {str(data)[:80]!r}; expected an object with its kind under 'event'")
    values = dict(data)
    kind = _KINDS.get(str(values.pop("event", None)))
    if kind is None:
        raise ConfigError(f"not an event: {str(data)[:80]!r}; expected one of {', '.join(_KINDS)} under 'event'")
    known = {field.name for field in fields(kind)}
    if unknown := set(values) - known:
        raise ConfigError(f"event {data['event']!r} has unknown fields {sorted(unknown)}")
    try:
        event: Event = kind(**{name: _revive(name, value) for name, value in values.items()})
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(f"event {data['event']!r} is malformed: {error}") from error
    return event


def write_log(events: Iterable[Event]) -> Iterator[str]:
    """One JSON line an event."""
    for event in events:
        yield json.dumps(to_dict(event), ensure_ascii=False).translate(_OTHER_LINE_ENDS)


def read_log(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a log, blank lines skipped. Raises ConfigError with the line number where a line is damaged."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield from_dict(json.loads(line))
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"line {number} of the event log is damaged: {error}") from error


def _revive(name: str, value: Any) -> Any:
    """JSON lists back to tuples, and nested records back to their classes."""
    if name == "nodes":
        return tuple(_node(node) for node in value)
    if name == "heads":
        return tuple(HeadFit(**head) for head in value)
    if name == "reason":
        return StopReason(value)
    if isinstance(value, list):
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    return value


def _node(data: dict[str, Any]) -> Node:
    verdict = data["verdict"]
    return Node(
        **{
            **data,
            "source": Source(data["source"]),
            "state": NodeState(data["state"]),
            "verdict": None if verdict is None else Verdict(**verdict),
        }
    )
