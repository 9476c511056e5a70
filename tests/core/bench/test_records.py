"""What counts as a loop, and what a reply's record says of its answer."""

from __future__ import annotations

import pytest

from medusa_core.bench.records import Answer, BenchPrompt, loops, make_reply

PROMPT = BenchPrompt("81", "writing", (), (1, 2, 3))


@pytest.mark.parametrize(
    ("tokens", "looping"),
    [
        ([], False),
        ([7, 7, 7], False),  # too short for a 4-gram
        (list(range(64)), False),
        ([5] * 64, True),
        (list(range(200)) + [1, 2, 3] * 30, True),  # it ends in a loop
        ([1, 2, 3] * 60 + list(range(64)), False),  # it began with one
        (list(range(30)) * 3, True),  # 61 4-grams, 30 of them different
        (list(range(31)) * 3, False),  # 31 different
    ],
)
def test_a_loop_repeats_more_than_half_of_its_end(tokens: list[int], looping: bool) -> None:
    assert loops(tokens) is looping


def test_a_reply_is_compared_with_plain_decoding() -> None:
    answer = Answer((4, 5, 6), decoded=3, steps=2, first_token_seconds=0.1, decode_seconds=0.5)
    reply = make_reply(PROMPT, answer, run=1, order=2, plain=(4, 5, 6))
    assert (reply.prompt, reply.category, reply.run, reply.order) == ("81", "writing", 1, 2)
    assert (reply.prompt_tokens, reply.tokens, reply.steps) == (3, 3, 2)
    assert (reply.tokens_per_second, reply.tokens_per_step) == (6.0, 1.5)
    assert (reply.time_to_first_token, reply.identical_to_plain) == (0.1, True)
    assert make_reply(PROMPT, answer, run=0, order=0, plain=(4, 5)).identical_to_plain is False
    assert make_reply(PROMPT, answer, run=0, order=0).identical_to_plain is None


def test_a_reply_of_nothing_has_no_speed() -> None:
    reply = make_reply(PROMPT, Answer((), 0, 0, 0.1, 0.0), run=0, order=0)
    assert (reply.tokens_per_second, reply.tokens_per_step, reply.looping) == (None, None, False)
