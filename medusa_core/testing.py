"""Public test doubles: a chat that replays recorded events, a scripted drafter, and events made up without a model.

Importing this module does not import torch. Knows nothing of the app.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from medusa_core.config import DecodingConfig
from medusa_core.events import (
    Event,
    Finished,
    Node,
    NodeState,
    Prefilled,
    Source,
    Step,
    StopReason,
    Verdict,
)
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import ChatMessage, ModelInfo, Weight

if TYPE_CHECKING:
    from medusa_core.records import Accepted, CandidateTree, Scores
    from medusa_core.state import State

_WORDS = " the cat sat on a mat and looked at two birds in that old tree while it rained all day long .".split(" ")[1:]
_PROMPT_TOKENS = 24


def scripted_reply(steps: int = 40, *, nodes: int = 16, heads: int = 4, seed: int = 0) -> list[Event]:
    """The events of a made-up reply with trees of up to `nodes` draft nodes: Prefilled, Steps, Finished."""
    rng = random.Random(seed)
    events: list[Event] = [Prefilled(prompt_tokens=_PROMPT_TOKENS, reused_tokens=0, context_size=8192, seconds=0.2)]
    metrics, text = ReplyMetrics(), ""
    token_ids: list[int] = []
    for index in range(steps):
        step = _scripted_step(index, text, len(token_ids), nodes, heads, rng)
        text += step.text
        token_ids += step.token_ids
        metrics.add(step)
        events.append(step)
    events.append(_finished(StopReason.STOP, metrics, text, token_ids))
    return events


def _finished(reason: StopReason, metrics: ReplyMetrics, text: str, token_ids: list[int]) -> Finished:
    return metrics.finished(reason, token_ids, text=text, prompt_tokens=_PROMPT_TOKENS, prefill_seconds=0.2)


def _scripted_step(index: int, before: str, tokens_before: int, count: int, heads: int, rng: random.Random) -> Step:
    parents, depths = [0], [0]
    while len(parents) <= count:
        parent = rng.choice([i for i, depth in enumerate(depths) if depth < heads])
        parents.append(parent)
        depths.append(depths[parent] + 1)
    path = [0]
    while rng.random() < 0.6:
        children = [i for i, parent in enumerate(parents) if i and parent == path[-1]]
        if not children:
            break
        path.append(children[0])
    ranks: dict[int, int] = {}
    nodes = []
    for i, (parent, depth) in enumerate(zip(parents, depths, strict=True)):
        rank = ranks.get(parent, 0) if i else 0
        ranks[parent] = rank + 1
        nodes.append(_scripted_node(i, parent, depth, rank, path, rng))
    spans, text = [], ""
    for i in path:
        start = len(before) + len(text)
        text += nodes[i].text
        spans.append((start, len(before) + len(text)))
    return Step(
        index=index,
        nodes=tuple(nodes),
        path=tuple(path),
        token_ids=tuple(nodes[i].token_id for i in path),
        context_tokens=_PROMPT_TOKENS + tokens_before + len(path),
        seconds=0.03,
        draft_seconds=0.002,
        verify_seconds=0.027,
        accept_seconds=0.001,
        text=text,
        spans=tuple(spans),
    )


def _scripted_node(i: int, parent: int, depth: int, rank: int, path: list[int], rng: random.Random) -> Node:
    word = rng.randrange(len(_WORDS))
    text = _text_of(word)
    probability = rng.random() / (rank + 1)
    tried = i > 0 and parent in path
    if i == 0:
        state = NodeState.ROOT
    elif i in path:
        state = NodeState.ACCEPTED
    else:
        state = NodeState.REJECTED if tried else NodeState.UNREACHED
    verdict = None
    if tried:
        passed = state is NodeState.ACCEPTED
        verdict = Verdict(
            passed=passed, probability=probability, threshold=0.09, entropy=1.2, choice=7, choice_text=" old"
        )
    return Node(
        token_id=word,
        parent=parent,
        depth=depth,
        rank=rank,
        source=Source.HEAD if i else Source.MODEL,
        state=state,
        draft_probability=rng.random() / (rank + 1) if i else None,
        model_probability=probability if i else None,
        verdict=verdict,
        text=text,
    )


@dataclass
class ReplayChat:
    """Stands in for `medusa_core.chat.Chat`: answers every message with the same recorded events.

    `seconds_per_step` paces it; `calls` and `written` keep what it was asked, for assertions; `error` is raised after
    `error_after` events where given.
    """

    events: Sequence[Event] = field(default_factory=scripted_reply)
    seconds_per_step: float = 0.0
    error: Exception | None = None
    error_after: int = 0
    calls: list[tuple[list[ChatMessage], DecodingConfig]] = field(default_factory=list)
    written: list[tuple[int, ...]] = field(default_factory=list)
    info: ModelInfo = field(
        default_factory=lambda: ModelInfo(
            name="Replay", dtype="fp32", device="cpu", parameters=0, context_size=8192, num_heads=4, heads_name="replay"
        )
    )

    def reply(
        self,
        messages: Iterable[ChatMessage],
        config: DecodingConfig,
        stop: Callable[[], bool] = lambda: False,
        written: Sequence[int] = (),
    ) -> Iterator[Event]:
        """The recorded events; ends early with reason `cancelled` once `stop()` is true, as the real chat does.

        With `written`, those that come after so many tokens, numbered and placed as the real chat does.
        """
        self.calls.append((list(messages), config))
        self.written.append(tuple(written))
        metrics, text = ReplyMetrics(), "".join(_text_of(token) for token in written)
        ids = list(written)
        for number, event in enumerate(_after(self.events, len(written), text)):
            if self.error is not None and number >= self.error_after:
                raise self.error
            if isinstance(event, Step):
                if stop():
                    yield _finished(StopReason.CANCELLED, metrics, text, ids)
                    return
                time.sleep(self.seconds_per_step)
                metrics.add(event)
                text += event.text
                ids += event.token_ids
            if isinstance(event, Finished) and written:
                yield _finished(event.reason, metrics, text, ids)
                return
            yield event

    def reply_ids(self, text: str) -> list[int]:
        """The words of the script that the text is made of; others are left out."""
        words = text.replace(".", " .").split()
        return [_WORDS.index(word) for word in words if word in _WORDS]

    def weigh(
        self, _messages: Sequence[ChatMessage], _written: Sequence[int], token_ids: Sequence[int]
    ) -> tuple[Weight, ...]:
        """A tie between all of them."""
        return tuple(Weight(token, 7.5, 1 / len(token_ids)) for token in token_ids)


def _text_of(token_id: int) -> str:
    word = _WORDS[token_id % len(_WORDS)]
    return word if word == "." else " " + word


def _after(events: Iterable[Event], tokens: int, text: str) -> Iterator[Event]:
    """What a reply that begins with so many tokens, and their text, goes on with."""
    if not tokens:
        yield from events
        return
    before = index = 0
    shift: int | None = None
    for event in events:
        if isinstance(event, Prefilled):
            yield replace(event, text=text)
        elif isinstance(event, Step):
            before += len(event.token_ids)
            if before > tokens or index:
                shift = len(text) - event.spans[0][0] if shift is None else shift
                spans = tuple((start + shift, end + shift) for start, end in event.spans)
                yield replace(event, index=index, spans=spans)
                index += 1
        else:
            yield event


class ScriptedDrafter:
    """Stands in for a drafter: proposes a reply known beforehand, each of its tokens behind wrong ones.

    Every wrong guess has a child of its own, so that a tree mask with an error in it shows in the model's answers.
    """

    def __init__(self, reply: Sequence[int], *, depth: int = 3, decoys: int = 2) -> None:
        """`decoys`: wrong guesses beside each true one, 3 at most; the vocabulary must be a multiple of 4."""
        self._reply, self._depth, self._decoys = list(reply), depth, decoys

    def propose(self, state: State, room: int) -> CandidateTree:
        """The next `depth` tokens of the reply as a path, wrong guesses on its left."""
        from medusa_core.records import CandidateTree
        from medusa_core.tree import Tree

        parents, tokens, ranks, spine = [0], [state.root], [0], 0
        for token in self._reply[len(state.reply) + 1 :][: self._depth]:
            wrong = [token ^ (rank + 1) for rank in range(self._decoys)]
            first = len(parents)
            parents += [spine] * (self._decoys + 1) + [first + rank for rank in range(self._decoys)]
            tokens += [*wrong, token, *reversed(wrong)]
            ranks += [*range(self._decoys + 1), *[0] * self._decoys]
            spine = first + self._decoys
        tree = Tree(tuple(parents)).first(room)
        count = len(tree)
        return CandidateTree(
            tree=tree,
            token_ids=tuple(tokens[:count]),
            ranks=tuple(ranks[:count]),
            draft_probabilities=(None, *[0.5] * (count - 1)),
            sources=(Source.MODEL, *[Source.HEAD] * (count - 1)),
        )

    def observe(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """The script does not change."""
