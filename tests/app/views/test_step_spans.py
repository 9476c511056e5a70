"""Which step wrote a character: the first token of a step is the model's own, the others were drafted."""

from __future__ import annotations

from dataclasses import replace

from app.views.step_spans import StepSpan, StepSpans, span_of
from medusa_core.events import Step
from medusa_core.testing import scripted_reply

SOME_STEP = next(event for event in scripted_reply(1) if isinstance(event, Step))


def spans_of(*steps: list[tuple[int, int]]) -> StepSpans:
    spans = StepSpans()
    spans.append([replace(SOME_STEP, spans=tuple(tokens)) for tokens in steps])
    return spans


def test_the_first_token_of_a_step_is_the_model_s_own() -> None:
    assert span_of([(3, 5), (5, 9), (9, 11)]) == StepSpan(3, 5, 11)
    assert span_of([(3, 5)]) == StepSpan(3, 5, 5)
    assert span_of([]) is None


def test_drafted_characters() -> None:
    assert spans_of([(0, 2), (2, 5)], [(5, 8)], [(8, 11), (11, 14)]).drafted() == [(2, 5), (11, 14)]


def test_every_character_finds_the_step_that_wrote_it() -> None:
    steps = [event for event in scripted_reply(50) if isinstance(event, Step)]
    spans = StepSpans()
    spans.append(steps)
    for step in steps:
        for offset in range(step.spans[0][0], step.spans[-1][1]):
            assert spans.at(offset) == step.index
            assert step.index in spans.among(offset, offset + 1)
    assert spans.at(steps[-1].spans[-1][1]) == -1


def test_a_step_without_whole_characters_owns_none() -> None:
    spans = spans_of([(0, 1)], [(1, 1)], [(1, 2)], [])
    assert [spans.at(offset) for offset in range(3)] == [0, 2, -1]
    assert spans[3] is None
    assert spans[4] is None
    assert spans[-1] is None
