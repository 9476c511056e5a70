"""Every event through a log and back, and what a damaged log says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import ConfigError
from medusa_core.events import (
    Event,
    Finished,
    HeadFit,
    Node,
    NodeState,
    Prefilled,
    Progress,
    Source,
    Step,
    StopReason,
    TrainingStep,
    Verdict,
    from_dict,
    read_log,
    to_dict,
    write_log,
)

counts = st.integers(0, 2**40)
numbers = st.floats(allow_nan=False)
maybe = st.none() | numbers
texts = st.text()


def tuples(values: st.SearchStrategy[Any], size: int = 5) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(values, max_size=size).map(tuple)


verdicts = st.builds(Verdict, st.booleans(), maybe, maybe, maybe, st.none() | counts, texts, st.none() | counts, texts)
nodes = st.builds(
    Node,
    counts,
    counts,
    counts,
    counts,
    st.sampled_from(Source),
    st.sampled_from(NodeState),
    maybe,
    maybe,
    st.none() | verdicts,
    texts,
)
KINDS: dict[type[Any], st.SearchStrategy[Any]] = {
    Progress: st.builds(Progress, texts, numbers, numbers, texts),
    Prefilled: st.builds(Prefilled, counts, counts, counts, numbers, st.text(), st.sampled_from(["", "think"])),
    Step: st.builds(
        Step,
        index=counts,
        nodes=tuples(nodes),
        path=tuples(counts),
        token_ids=tuples(counts),
        context_tokens=counts,
        seconds=numbers,
        draft_seconds=numbers,
        verify_seconds=numbers,
        accept_seconds=numbers,
        text=texts,
        spans=tuples(st.tuples(counts, counts)),
    ),
    Finished: st.builds(
        Finished,
        reason=st.sampled_from(StopReason),
        token_ids=tuples(counts),
        text=texts,
        tail=texts,
        tokens=counts,
        steps=counts,
        tokens_per_step=numbers,
        tokens_per_second=numbers,
        acceptance_per_head=tuples(numbers),
        prompt_tokens=counts,
        prefill_seconds=numbers,
        decode_seconds=numbers,
        message=texts,
    ),
    TrainingStep: st.builds(
        TrainingStep, counts, counts, numbers, numbers, numbers, tuples(st.builds(HeadFit, numbers, numbers))
    ),
}

STEP = Step(
    index=0,
    nodes=(
        Node(5, 0, 0, 0, Source.MODEL, NodeState.ROOT, None, None, None, "a"),
        Node(6, 0, 1, 0, Source.HEAD, NodeState.ACCEPTED, 0.5, 0.25, Verdict(True, 0.25, 0.09, 1.5, 6, "b"), "b"),
    ),
    path=(0, 1),
    token_ids=(5, 6),
    context_tokens=9,
    seconds=0.5,
    draft_seconds=0.1,
    verify_seconds=0.3,
    accept_seconds=0.1,
    text="ab",
    spans=((0, 1), (1, 2)),
)


def test_every_kind_of_event_is_tried_here() -> None:
    assert set(KINDS) == set(get_args(Event))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_event_comes_back_through_json_equal_and_hashable(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(KINDS[kind])
    back = from_dict(json.loads(json.dumps(to_dict(event))))
    assert type(back) is kind
    assert back == event
    assert hash(back) == hash(event)  # a list left inside would not hash


@given(st.lists(st.one_of(*KINDS.values()), max_size=4))
def test_a_log_comes_back_whatever_cuts_its_lines(events: list[Event]) -> None:
    log = "".join(line + "\n" for line in write_log(events))
    assert list(read_log(log.splitlines())) == events
    assert list(read_log(log.split("\n"))) == events


@pytest.mark.parametrize("character", ["\n", "\r", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_line_end_inside_a_text_stays_inside_its_line(character: str) -> None:
    event = Progress(f"one{character}two", 1, 2)
    (line,) = write_log([event])
    assert line.splitlines() == [line]
    assert list(read_log([line])) == [event]


def test_a_log_file_is_readable_text(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    event = Progress("Größe 大", 1, 2, "bytes")
    file.write_text("\n".join(write_log([event, STEP])), encoding="utf-8")
    assert "Größe 大" in file.read_text(encoding="utf-8")
    with file.open(encoding="utf-8") as lines:
        assert list(read_log(lines)) == [event, STEP]


def test_names_in_the_log_are_the_documented_ones() -> None:
    data = json.loads(next(iter(write_log([STEP]))))
    assert data["event"] == "step"
    assert data["nodes"][1]["state"] == "accepted"
    assert data["nodes"][1]["source"] == "head"
    assert data["spans"] == [[0, 1], [1, 2]]


def test_kinds_of_values_come_back_as_themselves() -> None:
    (step,) = read_log(write_log([STEP]))
    assert isinstance(step, Step)
    assert isinstance(step.nodes[1].state, NodeState)
    assert isinstance(step.nodes[1].source, Source)
    assert isinstance(step.nodes[1].verdict, Verdict)
    assert isinstance(step.spans[0], tuple)


def test_a_log_from_before_tokens_were_drawn_is_still_read() -> None:
    data = json.loads(json.dumps(to_dict(STEP)))
    for name in ("drawn", "drawn_text"):
        del data["nodes"][1]["verdict"][name]
    assert from_dict(data) == STEP


def changed(**values: object) -> dict[str, Any]:
    return {**json.loads(json.dumps(to_dict(STEP))), **values}


NODE = changed()["nodes"][1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "not an event"),
        ({"event": "stepp"}, "expected one of progress, prefilled, step, finished, training_step"),
        ({"event": None}, "not an event"),
        ({"event": ["step"]}, "not an event"),
        ({"event": "progress", "stage": "x", "done": 1, "total": 2, "colour": 3}, r"unknown fields \['colour'\]"),
        ({"event": "progress", "stage": "x"}, "'done' and 'total'"),
        ({"event": "finished", "reason": "bored"}, "bored"),
        (changed(nodes=[{**NODE, "colour": 1}]), "colour"),
        (changed(nodes=[{**NODE, "state": "maybe"}]), "maybe"),
        (changed(nodes=[{**NODE, "verdict": {"passed": True}}]), "missing"),
        (changed(nodes=[{key: NODE[key] for key in NODE if key != "verdict"}]), "verdict"),
        (changed(nodes=[7]), "malformed"),
        (changed(nodes=7), "malformed"),
        ([], "expected an object"),
        (5, "expected an object"),
        (None, "expected an object"),
        ([["event", "progress"]], "expected an object"),
    ],
)
def test_a_damaged_line_is_named(data: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_dict(data)
    lines = ["", next(iter(write_log([STEP]))), json.dumps(data)]
    with pytest.raises(ConfigError, match=f"line 3 of the event log is damaged: .*{message}"):
        list(read_log(lines))


@pytest.mark.parametrize("line", ["{", '{"event": "step"', "nonsense", '"step"', "\ufeff{}"])
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    with pytest.raises(ConfigError, match="line 2 of the event log is damaged"):
        list(read_log(["   ", line]))


def test_what_stands_before_the_damage_is_read() -> None:
    events = read_log([*write_log([STEP]), "{"])
    assert next(events) == STEP
    with pytest.raises(ConfigError, match="line 2"):
        next(events)
