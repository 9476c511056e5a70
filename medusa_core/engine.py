"""Decoding: draft -> verify -> accept -> commit -> yield, until a limit is reached.

Token ids only; everything it yields is plain data. It owns nothing between replies: what stays is the State it is
given. Knows nothing of text, chat templates or where drafts come from.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import torch

from medusa_core.acceptance.base import Rule
from medusa_core.backbone.base import Backbone
from medusa_core.drafters.base import Drafter
from medusa_core.events import Event, Node, NodeState, Prefilled, Progress, Step, StopReason
from medusa_core.metrics import ReplyMetrics
from medusa_core.records import Accepted, CandidateTree
from medusa_core.state import State
from medusa_core.verify import verify

_PREFILL_CHUNK = 256  # tokens a pass: long enough to be fast, short enough to stop at once


class Engine:
    """Decodes one reply at a time over a backbone, with a drafter and a rule."""

    def __init__(
        self, backbone: Backbone, drafter: Drafter, rule: Rule, *, stop_ids: frozenset[int], max_new_tokens: int
    ) -> None:
        self._backbone, self._drafter, self._rule = backbone, drafter, rule
        self._stop_ids, self._max_new_tokens = stop_ids, max_new_tokens

    def generate(
        self, state: State, prompt: Sequence[int], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Event]:
        """Reply to `prompt`: Progress while a long prompt is read, Prefilled, a Step for every pass, Finished.

        `stop` is asked before every pass; once it is true the reply ends as cancelled.
        """
        metrics = ReplyMetrics()
        started = perf_counter()
        reason = yield from self._prefill(state, prompt, stop)
        prefill_seconds = perf_counter() - started
        while not (reason := reason or self._limit_reached(state, stop)):
            step = self._step(state, metrics.steps)
            metrics.add(step)
            yield step
        yield metrics.finished(
            reason,
            state.reply,
            prompt_tokens=len(prompt),
            prefill_seconds=prefill_seconds,
            message=_MESSAGES[reason],
        )

    @torch.inference_mode()
    def _step(self, state: State, index: int) -> Step:
        started = perf_counter()
        candidates = self._drafter.propose(state, self._room(state))
        drafted = perf_counter()
        scores = verify(self._backbone, state, candidates)
        verified = perf_counter()
        accepted = self._cut(state, candidates, self._rule.accept(candidates, scores, state.context))
        state.commit(candidates, scores, accepted)
        self._drafter.observe(candidates, scores, accepted)
        times = (started, drafted, verified, perf_counter())
        return _step_event(index, candidates, accepted, state.cache.length, times)

    def _prefill(
        self, state: State, prompt: Sequence[int], stop: Callable[[], bool]
    ) -> Generator[Event, None, StopReason | None]:
        """Read the prompt in chunks, as far as the cache does not hold it; the reason where that was not possible."""
        started = perf_counter()
        context_size = self._backbone.spec.context_size
        if len(prompt) >= context_size:
            state.begin(prompt[:1])
            return StopReason.CONTEXT_FULL
        reused = state.begin(prompt)
        for start in range(reused, len(prompt), _PREFILL_CHUNK):
            if stop():
                return StopReason.CANCELLED
            if start > reused:
                yield Progress("Reading the conversation", start - reused, len(prompt) - reused, "tokens")
            self._read(state, prompt[start : start + _PREFILL_CHUNK], last=start + _PREFILL_CHUNK >= len(prompt))
        yield Prefilled(len(prompt), reused, context_size, perf_counter() - started)
        return None

    @torch.inference_mode()
    def _read(self, state: State, token_ids: Sequence[int], *, last: bool) -> None:
        device = self._backbone.device
        positions = torch.arange(state.cache.length, state.cache.length + len(token_ids), device=device)
        hidden = self._backbone.forward(torch.tensor(token_ids, device=device), positions, None, state.cache)
        state.read(token_ids)
        if last:
            root = self._rule.first(self._backbone.logits(hidden[-1:])[0], state.context)
            state.set_root(root, hidden[-1])

    def _limit_reached(self, state: State, stop: Callable[[], bool]) -> StopReason | None:
        if stop():
            return StopReason.CANCELLED
        if state.root in self._stop_ids:
            return StopReason.STOP
        if len(state.reply) >= self._max_new_tokens:
            return StopReason.LENGTH
        if self._room(state) < 1:
            return StopReason.CONTEXT_FULL
        return None

    def _room(self, state: State) -> int:
        """Nodes that still fit into the context."""
        return self._backbone.spec.context_size - state.cache.length

    def _cut(self, state: State, candidates: CandidateTree, accepted: Accepted) -> Accepted:
        """End the path before a stop token, which becomes the next root, and at the limit of new tokens."""
        path = accepted.path
        left = self._max_new_tokens - len(state.reply)
        for position, node in enumerate(path[: left + 1]):
            if candidates.token_ids[node] in self._stop_ids:
                return replace(accepted, path=path[:position], next_token=candidates.token_ids[node], stop_node=node)
        if len(path) > left:
            return replace(accepted, path=path[:left], next_token=candidates.token_ids[path[left]])
        return accepted


def _step_event(
    index: int,
    candidates: CandidateTree,
    accepted: Accepted,
    context_tokens: int,
    times: tuple[float, float, float, float],
) -> Step:
    started, drafted, verified, ended = times
    path = accepted.path if accepted.stop_node is None else (*accepted.path, accepted.stop_node)
    return Step(
        index=index,
        nodes=tuple(_node(candidates, accepted, node, kept=node in path) for node in range(len(candidates.tree))),
        path=path,
        token_ids=tuple(candidates.token_ids[node] for node in accepted.path),
        context_tokens=context_tokens,
        seconds=ended - started,
        draft_seconds=drafted - started,
        verify_seconds=verified - drafted,
        accept_seconds=ended - verified,
        note=candidates.note,
    )


def _node(candidates: CandidateTree, accepted: Accepted, node: int, *, kept: bool) -> Node:
    if node == 0:
        state = NodeState.ROOT
    elif kept:
        state = NodeState.ACCEPTED
    else:
        state = NodeState.REJECTED if node in accepted.verdicts else NodeState.UNREACHED
    probabilities = accepted.model_probabilities
    return Node(
        token_id=candidates.token_ids[node],
        parent=candidates.tree.parents[node],
        depth=candidates.tree.depths[node],
        rank=candidates.ranks[node],
        source=candidates.sources[node],
        state=state,
        draft_probability=candidates.draft_probabilities[node],
        model_probability=None if probabilities is None or node == 0 else probabilities[node],
        verdict=accepted.verdicts.get(node),
    )


_MESSAGES = {
    StopReason.STOP: "",
    StopReason.LENGTH: "The reply reached the limit of new tokens; it may be incomplete.",
    StopReason.CANCELLED: "Stopped before the end.",
    StopReason.CONTEXT_FULL: "The conversation fills the model's whole context. Start a new chat, or shorten this one.",
}
