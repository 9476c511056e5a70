"""Where a reply ends, what its events say, and how its figures are counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medusa_core import engine as room
from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.drafters.base import Drafter
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.events import Event, Finished, NodeState, Prefilled, Progress, Source, Step, StopReason
from medusa_core.state import State
from medusa_core.testing import ScriptedDrafter

PROMPT = list(b"Once upon a time")


@pytest.fixture
def backbone(tiny_backbone: Callable[..., LeanBackbone]) -> LeanBackbone:
    return tiny_backbone()


def run(
    backbone: LeanBackbone,
    drafter: Drafter,
    *,
    prompt: list[int] = PROMPT,
    count: int = 20,
    stop_ids: tuple[int, ...] = (),
    stop: Callable[[], bool] = lambda: False,
    state: State | None = None,
) -> list[Event]:
    engine = Engine(backbone, drafter, GreedyRule(), stop_ids=frozenset(stop_ids), max_new_tokens=count)
    return list(engine.generate(state or State(backbone.new_cache()), prompt, stop))


def end(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def steps(events: list[Event]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


@pytest.fixture
def reply(backbone: LeanBackbone) -> list[int]:
    """What the model writes, token by token."""
    return list(end(run(backbone, NoDrafter(), count=40)).token_ids)


def test_the_events_come_in_order_and_agree(backbone: LeanBackbone, reply: list[int]) -> None:
    events = run(backbone, ScriptedDrafter(reply), count=17)
    assert isinstance(events[0], Prefilled)
    assert (events[0].prompt_tokens, events[0].reused_tokens, events[0].context_size) == (len(PROMPT), 0, 256)
    assert len(steps(events)) == len(events) - 2
    tokens = [token for step in steps(events) for token in step.token_ids]
    assert tokens == reply[:17]
    assert end(events).token_ids == tuple(tokens)
    assert [step.index for step in steps(events)] == list(range(end(events).steps))
    length = len(PROMPT)
    for step in steps(events):
        length += len(step.token_ids)
        assert step.context_tokens == length
        assert step.seconds >= step.draft_seconds + step.verify_seconds
        assert step.token_ids == tuple(step.nodes[node].token_id for node in step.path)


def test_every_node_says_what_became_of_it(backbone: LeanBackbone, reply: list[int]) -> None:
    step = steps(run(backbone, ScriptedDrafter(reply, depth=2), count=10))[0]
    # Two wrong guesses before each true one, and a child under every wrong one.
    root, accepted, rejected, unreached = NodeState.ROOT, NodeState.ACCEPTED, NodeState.REJECTED, NodeState.UNREACHED
    states = [root, rejected, rejected, accepted, unreached, unreached]
    assert [node.state for node in step.nodes] == [*states, rejected, rejected, accepted, unreached, unreached]
    assert step.path == (0, 3, 8)
    assert [node.source for node in step.nodes[:2]] == [Source.MODEL, Source.HEAD]
    for node in step.nodes:
        assert (node.verdict is None) == (node.state in (root, unreached))
    verdict = step.nodes[1].verdict
    assert verdict is not None
    assert (verdict.passed, verdict.choice) == (False, reply[1])


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4, 7])
def test_a_stop_token_ends_the_reply_wherever_it_falls(backbone: LeanBackbone, reply: list[int], position: int) -> None:
    stop_id = reply[position]
    kept = reply[: reply.index(stop_id)]
    state = State(backbone.new_cache())
    finished = end(run(backbone, ScriptedDrafter(reply, depth=4), stop_ids=(stop_id,), state=state))
    plain = end(run(backbone, NoDrafter(), stop_ids=(stop_id,)))
    assert finished.reason == plain.reason == StopReason.STOP
    assert list(finished.token_ids) == list(plain.token_ids) == kept
    assert finished.tokens == len(kept)
    assert state.context == PROMPT + kept
    assert state.cache.length == len(state.context)


def test_a_guessed_stop_token_is_a_guess_that_was_kept(backbone: LeanBackbone, reply: list[int]) -> None:
    stop_id = reply[6]
    assert stop_id not in reply[:6]
    events = run(backbone, ScriptedDrafter(reply, depth=3, decoys=1), stop_ids=(stop_id,))
    first, last = steps(events)
    assert (first.stop_node, last.token_ids) == (None, (reply[4], reply[5]))
    node = last.nodes[last.path[-1]]
    assert last.stop_node == last.path[-1]
    assert (node.token_id, node.depth, node.state) == (stop_id, 2, NodeState.ACCEPTED)
    kept = [index for index, node in enumerate(last.nodes) if node.state is NodeState.ACCEPTED]
    assert (0, *kept) == last.path
    assert end(events).acceptance_per_head == (1.0, 1.0, 0.5, 0.0)  # wrong guesses have children 4 ahead
    assert (end(events).tokens, end(events).tokens_per_step) == (6, 3.0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8])
def test_a_stop_token_past_the_limit_changes_nothing(backbone: LeanBackbone, reply: list[int], count: int) -> None:
    drafted = end(run(backbone, ScriptedDrafter(reply, depth=6), count=count, stop_ids=(reply[6],)))
    plain = end(run(backbone, NoDrafter(), count=count, stop_ids=(reply[6],)))
    assert (drafted.token_ids, drafted.reason) == (plain.token_ids, plain.reason)
    assert drafted.reason is (StopReason.LENGTH if count < 6 else StopReason.STOP)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 9])
def test_the_limit_counts_tokens_not_steps(backbone: LeanBackbone, reply: list[int], count: int) -> None:
    state = State(backbone.new_cache())
    finished = end(run(backbone, ScriptedDrafter(reply), count=count, state=state))
    assert finished.reason == StopReason.LENGTH
    assert list(finished.token_ids) == reply[:count]
    assert finished.tokens == count
    assert finished.steps == -(-count // 4)
    assert "limit" in finished.message
    assert state.cache.length == len(PROMPT) + count


def test_a_reply_cut_in_a_path_can_go_on(backbone: LeanBackbone, reply: list[int]) -> None:
    state = State(backbone.new_cache())
    run(backbone, ScriptedDrafter(reply), count=6, state=state)
    events = run(backbone, NoDrafter(), prompt=PROMPT + reply[:6], count=6, state=state)
    assert isinstance(events[0], Prefilled)
    assert events[0].reused_tokens == len(PROMPT) + 5  # the last one is read again, for its hidden state
    assert list(end(events).token_ids) == reply[6:12]


@pytest.mark.parametrize("room_left", [1, 2, 3, 5, 11])
def test_a_full_context_ends_with_a_message(
    tiny_backbone: Callable[..., LeanBackbone], reply: list[int], room_left: int
) -> None:
    backbone = tiny_backbone(context=len(PROMPT) + room_left)
    state = State(backbone.new_cache())
    events = run(backbone, ScriptedDrafter(reply, depth=3), state=state)
    assert end(events).reason == StopReason.CONTEXT_FULL
    assert list(end(events).token_ids) == reply[:room_left]
    assert "context" in end(events).message
    assert state.cache.length == backbone.spec.context_size
    assert all(len(step.nodes) <= room_left for step in steps(events))


@pytest.mark.parametrize("length", [20, 21, 100])
def test_a_prompt_longer_than_the_context_ends_at_once(tiny_backbone: Callable[..., LeanBackbone], length: int) -> None:
    backbone = tiny_backbone(context=20)
    state = State(backbone.new_cache())
    events = run(backbone, NoDrafter(), prompt=[65] * length, state=state)
    assert len(events) == 1
    assert (end(events).reason, end(events).token_ids) == (StopReason.CONTEXT_FULL, ())
    assert list(end(run(backbone, NoDrafter(), prompt=PROMPT, count=3, state=state)).token_ids)


def test_cancel_takes_effect_before_the_next_step(backbone: LeanBackbone, reply: list[int]) -> None:
    asked: list[bool] = []
    engine = Engine(backbone, ScriptedDrafter(reply), GreedyRule(), stop_ids=frozenset(), max_new_tokens=40)
    events: list[Event] = []
    for event in engine.generate(State(backbone.new_cache()), PROMPT, lambda: bool(asked)):
        events.append(event)
        if len(steps(events)) == 2:
            asked.append(True)
    assert len(steps(events)) == 2
    assert end(events).reason == StopReason.CANCELLED
    assert list(end(events).token_ids) == reply[:8]
    assert end(events).message


def test_cancel_takes_effect_between_chunks_of_the_prompt(
    tiny_backbone: Callable[..., LeanBackbone], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_PREFILL_CHUNK", 8)
    backbone, state = tiny_backbone(), State(tiny_backbone().new_cache())
    answers = iter([False, False, True])
    events = run(backbone, NoDrafter(), prompt=[65] * 40, stop=lambda: next(answers), state=state)
    assert [type(event) for event in events] == [Progress, Finished]
    assert end(events).reason == StopReason.CANCELLED
    assert state.context == [65] * 16
    assert state.cache.length == 16


def test_a_prompt_in_chunks_gives_the_same_reply(
    backbone: LeanBackbone, reply: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_PREFILL_CHUNK", 5)
    events = run(backbone, NoDrafter(), count=12)
    assert list(end(events).token_ids) == reply[:12]
    progress = [event for event in events if isinstance(event, Progress)]
    assert [(event.done, event.total) for event in progress] == [(5, 16), (10, 16), (15, 16)]


def test_the_figures_are_counted_as_defined(backbone: LeanBackbone, reply: list[int]) -> None:
    finished = end(run(backbone, ScriptedDrafter(reply, depth=3), count=10))
    # Paths of 4, 4 and 2 tokens: 3, 3 and 1 guesses kept.
    assert (finished.tokens, finished.steps) == (10, 3)
    assert finished.tokens_per_step == pytest.approx(10 / 3)
    # The wrong guesses of the third level have children, so the trees are four levels deep.
    assert finished.acceptance_per_head == pytest.approx((1.0, 2 / 3, 2 / 3, 0.0))
    assert finished.tokens_per_second == pytest.approx(10 / finished.decode_seconds)
    assert finished.prompt_tokens == len(PROMPT)
    assert end(run(backbone, NoDrafter(), count=4)).acceptance_per_head == ()
