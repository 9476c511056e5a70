"""Two replies compared: identical, parting, cut short; and what each rule promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.proof import Claim, Run, claim_of, compare, parting_of, run_of
from medusa_core.config import GreedyAcceptance, SamplingAcceptance, TypicalAcceptance
from medusa_core.events import Finished, Step, StopReason
from medusa_core.testing import scripted_reply


def run(*tokens: int, reason: StopReason = StopReason.STOP, seconds: float = 1.0) -> Run:
    return Run(tokens, tuple(f" {token}" for token in tokens), len(tokens), seconds, reason)


def test_a_run_is_read_from_its_events() -> None:
    events = scripted_reply(20)
    finished = events[-1]
    assert isinstance(finished, Finished)
    found = run_of(events)
    assert found is not None
    assert found.token_ids == finished.token_ids
    assert len(found.texts) == len(found.token_ids)
    assert "".join(found.texts) == finished.text
    assert found.tokens_per_second == pytest.approx(finished.tokens_per_second)
    assert run_of(events[:-1]) is None


def test_what_a_reply_was_told_to_begin_with_is_no_part_of_the_run() -> None:
    finished = scripted_reply(3)[-1]
    assert isinstance(finished, Finished)
    events = [*scripted_reply(3)[:-1], replace(finished, token_ids=(7, 8, *finished.token_ids))]
    found = run_of(events, (7, 8))
    assert found is not None
    assert found.token_ids == finished.token_ids


def test_a_guessed_stop_token_is_no_part_of_the_run() -> None:
    events = scripted_reply(4)
    last = events[-2]
    assert isinstance(last, Step)
    longer = next(event for event in events if isinstance(event, Step) and len(event.path) > 1)
    cut = replace(longer, index=last.index, token_ids=longer.token_ids[:-1])
    found = run_of([*events[:-2], cut, events[-1]])
    assert found is not None
    assert found.texts[-len(cut.token_ids) :] == tuple(longer.nodes[index].text for index in longer.path[:-1])


def test_identical() -> None:
    proof = compare(Claim.GREEDY, run(1, 2, 3, seconds=1.0), run(1, 2, 3, seconds=2.0))
    assert proof.identical
    assert proof.held
    assert proof.complete
    assert proof.compared == 3
    assert proof.speed_up == pytest.approx(2.0)


def test_the_first_difference_is_found_with_the_words_before_it() -> None:
    parting = parting_of(run(1, 2, 3, 9), run(1, 2, 4, 9))
    assert parting is not None
    assert (parting.index, parting.before, parting.drafted, parting.plain) == (2, " 1 2", " 3", " 4")
    proof = compare(Claim.GREEDY, run(1, 2, 3), run(1, 2, 4))
    assert not proof.held
    assert proof.compared == 2
    assert compare(Claim.APPROXIMATE, run(1, 2, 3), run(1, 2, 4)).held


def test_a_whole_reply_that_ends_earlier_is_a_difference() -> None:
    parting = parting_of(run(1, 2), run(1, 2, 3))
    assert parting is not None
    assert (parting.index, parting.drafted, parting.plain) == (2, "", " 3")


def test_a_reply_cut_short_is_compared_as_far_as_it_goes() -> None:
    proof = compare(Claim.SAMPLED, run(1, 2, reason=StopReason.CANCELLED), run(1, 2, 3))
    assert proof.identical
    assert not proof.complete
    assert proof.compared == 2


def test_two_replies_at_the_limit_are_complete() -> None:
    proof = compare(Claim.GREEDY, run(1, 2, reason=StopReason.LENGTH), run(1, 2, reason=StopReason.LENGTH))
    assert proof.identical
    assert proof.complete


def test_what_the_rules_promise() -> None:
    assert claim_of(GreedyAcceptance()) is Claim.GREEDY
    assert claim_of(SamplingAcceptance()) is Claim.SAMPLED
    assert claim_of(TypicalAcceptance()) is Claim.APPROXIMATE
