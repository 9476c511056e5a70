"""What is said of training: of its outcome, of the time and room it takes, of the data it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.training_jobs import Trained
from app.training_words import cancelled_words, data_row, outcome_words, question_words, takes_words
from medusa_core.events import HeadFit
from medusa_core.train import estimate as probe
from medusa_core.train.kept import KeptData
from medusa_core.train.placing import Placed
from medusa_core.train.work import Written


def test_the_words_of_data_and_of_cancelling() -> None:
    assert question_words(Written(12_345, 14_000_000, others=False)) == (
        "Delete what this training wrote (12 345 tokens, 14 MB)?"
    )
    assert "stayed" in cancelled_words(Written(5, 0, others=True))
    data = KeptData(Path("f"), "Tiny", 5000, 2_500_000, 0.0, own=True, paused=True, measuring=False)
    row = data_row(data)
    assert "answers to your own questions" in row.facts
    assert "of a training that is paused" in row.facts
    assert "cannot be gone on with" in row.question
    assert "cannot be gone on with" not in data_row(replace(data, paused=False)).question


def test_the_words_of_an_outcome() -> None:
    heads = (HeadFit(0.52, 0.8), HeadFit(0.31, 0.6))
    words = outcome_words(Trained(Placed(Path("h")), heads, 1.9, 8, 1.46))
    assert "52 %, 31 %" in words
    assert "1.90 tokens a step with 8 guesses, 1.46 times" in words
    assert "plain decoding is as fast" in outcome_words(Trained(Placed(Path("h")), heads, 1.0, 0, 1.0))
    worse = Placed(Path("Tiny-2"), Path("Tiny"), 16, 1.8, 2.1)
    assert "They guess worse than the heads trained before: 1.80 tokens a step against 2.10, with 16 guesses" in (
        said := outcome_words(Trained(worse, heads, 1.9, 8, 1.46))
    )
    assert "Both are kept; the new ones are called Tiny-2." in said
    better = replace(worse, folder=Path("Tiny"), tokens=2.2)
    assert "They take the place of the heads trained before: 2.20 tokens a step against 2.10" in outcome_words(
        Trained(better, heads, 1.9, 8, 1.46)
    )
    unknown = replace(worse, draft_nodes=0)
    assert "no figure of the heads trained before" in outcome_words(Trained(unknown, heads, 1.9, 8, 1.46))
    found = probe.Estimate(0, 100.0, 0.1, 1160, 512, 4)
    assert takes_words(found, 400_000) == "about 1 h 12 min, 464 MB on the disk"
