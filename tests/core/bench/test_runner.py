"""Who answers when, and what stays of a run that was interrupted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core.bench.records import Answer, BenchPrompt
from medusa_core.bench.runner import Bench, rotated
from medusa_core.config import BenchConfig
from medusa_core.events import Progress

PROMPTS = [BenchPrompt(name, "", (), (number,)) for number, name in enumerate("pqr")]


class Scripted:
    """Answers with its own number, and notes what it is asked."""

    def __init__(self, name: str, calls: list[tuple[str, str]], fails_at: int = -1) -> None:
        self.name, self.about = name, {"program": name}
        self._calls, self._fails_at, self._answers = calls, fails_at, 0

    def warm_up(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        self._calls.append((self.name, f"warm {prompt[0]} {max_new_tokens}"))

    def begin_run(self) -> None:
        self._calls.append((self.name, "begin"))

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        if self._answers == self._fails_at:
            raise KeyboardInterrupt
        self._answers += 1
        self._calls.append((self.name, str(prompt[0])))
        return Answer((prompt[0], len(self.name)), 2, 1, 0.1, 0.2)


def order(calls: list[tuple[str, str]]) -> str:
    return "".join(name + what for name, what in calls if len(what) == 1)


def test_systems_take_turns_and_each_begins_in_turn() -> None:
    calls: list[tuple[str, str]] = []
    config = BenchConfig(systems=("ours",), runs=2, max_new_tokens=9, warm_up=5)
    bench = Bench([Scripted(name, calls) for name in "abc"], PROMPTS, config)
    events = list(bench.run())
    assert calls[:3] == [("a", "warm 2 5"), ("b", "warm 2 5"), ("c", "warm 2 5")]
    assert order(calls) == "a0b0c0" + "b1c1a1" + "c2a2b2" + "b0c0a0" + "c1a1b1" + "a2b2c2"
    assert [what for _, what in calls].count("begin") == 6, "before each run, everything learnt is forgotten"
    assert bench.complete
    assert [reply.order for reply in bench.replies["a"]] == [0, 2, 1, 2, 1, 0]
    assert len(events) == 3 + 18
    assert isinstance(events[-1], Progress)
    assert "run 2 of 2, prompt 3 of 3, c" in events[-1].stage


def test_drafters_can_be_made_to_forget_after_every_reply() -> None:
    calls: list[tuple[str, str]] = []
    bench = Bench([Scripted("a", calls)], PROMPTS, BenchConfig(forget=True))
    list(bench.run())
    assert [what for _, what in calls].count("begin") == 1 + 3


def test_what_was_measured_before_an_interruption_stays() -> None:
    calls: list[tuple[str, str]] = []
    bench = Bench([Scripted("plain", calls), Scripted("b", calls, fails_at=1)], PROMPTS, BenchConfig())
    with pytest.raises(KeyboardInterrupt):
        list(bench.run())
    assert not bench.complete
    compared = bench.compared()
    # The second prompt was b's to begin, so plain decoding has not answered it.
    assert [reply.prompt for reply in compared["plain"]] == ["p"]
    assert [(reply.prompt, reply.identical_to_plain) for reply in compared["b"]] == [("p", False)]


def test_without_plain_decoding_nothing_is_compared() -> None:
    bench = Bench([Scripted("b", [])], PROMPTS[:1], BenchConfig())
    list(bench.run())
    assert [reply.identical_to_plain for reply in bench.compared()["b"]] == [None]


def test_rotation_keeps_the_order() -> None:
    systems = [Scripted(name, []) for name in "abcd"]
    assert "".join(system.name for system in rotated(systems, 6)) == "cdab"
