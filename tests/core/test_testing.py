"""The public test doubles obey the contract that the real chat obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.config import DecodingConfig
from medusa_core.events import Event, Finished, NodeState, Prefilled, Step, StopReason, read_log, write_log
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import ChatMessage
from medusa_core.testing import ReplayChat, scripted_reply
from medusa_core.tree import Tree

QUESTION: list[ChatMessage] = [{"role": "user", "content": "Hello"}]


def steps_of(events: list[Event]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


@given(st.integers(0, 12), st.integers(1, 20), st.integers(1, 5), st.integers(0, 1000))
def test_a_scripted_reply_is_a_reply(steps: int, nodes: int, heads: int, seed: int) -> None:
    first, *middle, last = scripted_reply(steps, nodes=nodes, heads=heads, seed=seed)
    assert isinstance(first, Prefilled)
    assert isinstance(last, Finished)
    assert [step.index for step in steps_of(middle)] == list(range(steps)) == list(range(len(middle)))
    metrics, text, tokens = ReplyMetrics(), "", first.prompt_tokens
    for step in steps_of(middle):
        metrics.add(step)
        assert [step.text[start - len(text) : end - len(text)] for start, end in step.spans] == [
            step.nodes[i].text for i in step.path
        ]
        text += step.text
        tokens += len(step.token_ids)
        assert step.context_tokens == tokens
    assert (last.text, last.tokens, last.steps) == (text, metrics.tokens, metrics.steps)
    assert last.acceptance_per_head == metrics.acceptance_per_head


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 1000))
def test_a_scripted_step_is_a_tree_judged_from_its_path(nodes: int, heads: int, seed: int) -> None:
    for step in steps_of(scripted_reply(2, nodes=nodes, heads=heads, seed=seed)):
        tree = Tree(tuple(node.parent for node in step.nodes))
        assert len(tree) == nodes + 1
        assert tuple(node.depth for node in step.nodes) == tree.depths
        assert max(tree.depths) <= heads
        assert step.path == tree.path(step.path[-1])
        for i, node in enumerate(step.nodes):
            tried = i > 0 and node.parent in step.path
            assert (node.verdict is not None) == tried
            assert (node.state is NodeState.UNREACHED) == (i > 0 and not tried)
            assert (node.state is NodeState.ACCEPTED) == (i > 0 and i in step.path)


def test_the_same_seed_is_the_same_reply() -> None:
    assert scripted_reply(5, seed=3) == scripted_reply(5, seed=3)
    assert scripted_reply(5, seed=3) != scripted_reply(5, seed=4)


def test_a_scripted_reply_survives_a_log() -> None:
    events = scripted_reply(5)
    assert list(read_log(write_log(events))) == events


def test_a_replay_answers_every_message_alike_and_remembers_what_it_was_asked() -> None:
    chat = ReplayChat(scripted_reply(3))
    config = DecodingConfig(nodes=4)
    assert list(chat.reply(QUESTION, config)) == list(chat.events)
    assert list(chat.reply([], DecodingConfig())) == list(chat.events)
    assert chat.calls == [(QUESTION, config), ([], DecodingConfig())]


@pytest.mark.parametrize("steps_before", [0, 1, 4])
def test_a_stopped_replay_ends_as_cancelled_with_what_it_gave(steps_before: int) -> None:
    chat = ReplayChat(scripted_reply(6))
    given_out: list[Event] = []
    given_out.extend(chat.reply(QUESTION, DecodingConfig(), stop=lambda: len(steps_of(given_out)) >= steps_before))
    *_, last = given_out
    steps = steps_of(given_out)
    assert len(steps) == steps_before
    assert isinstance(last, Finished)
    assert last.reason is StopReason.CANCELLED
    assert last.text == "".join(step.text for step in steps)
    assert last.token_ids == tuple(token for step in steps for token in step.token_ids)
    assert last.steps == steps_before


@pytest.mark.parametrize("events_before", [0, 2])
def test_a_replay_fails_when_told_to(events_before: int) -> None:
    chat = ReplayChat(scripted_reply(6), error=MemoryError("full"), error_after=events_before)
    given_out: list[Event] = []
    with pytest.raises(MemoryError, match="full"):
        given_out.extend(chat.reply(QUESTION, DecodingConfig()))
    assert given_out == list(chat.events[:events_before])
