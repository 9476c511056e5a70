"""Replies end to end: what is ahead of a position, who is held out, which tokens are worth guessing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from medusa_core.errors import OutOfMemory, TrainingError
from medusa_core.train.corpus import Corpus, draft_vocabulary, load
from medusa_core.train.shards import Reply, write_shard


def fill(folder: Path, jobs: range) -> None:
    for job in jobs:
        tokens = [job, job + 1, job + 2][: 1 + job % 3]
        write_shard(folder, [Reply(job, 0.7 * (job % 2), [1], tokens, torch.full((len(tokens), 4), float(job)))])


def corpus(*replies: list[int]) -> Corpus:
    return Corpus(
        tokens=torch.tensor([token for reply in replies for token in reply]),
        hidden=torch.zeros(sum(map(len, replies)), 4),
        left=torch.cat([torch.arange(len(reply) - 1, -1, -1) for reply in replies]),
        replies=len(replies),
    )


def test_ahead_ends_with_the_reply() -> None:
    both = corpus([10, 11, 12], [20, 21])
    targets, valid = both.ahead(torch.arange(5), 2)
    assert valid.tolist() == [True, False, False, False, False]
    assert both.tokens[targets[valid]].tolist() == [12]
    assert both.ahead(torch.arange(5), 1)[1].tolist() == [True, True, False, True, False]


def test_every_reply_goes_whole_into_one_part(tmp_path: Path) -> None:
    fill(tmp_path, range(60))
    training, held_out = load(tmp_path, 0.1)
    assert training.replies + held_out.replies == 60
    assert held_out.replies == 6
    jobs = set()
    for part in (training, held_out):
        for hidden, tokens in part.pieces():
            job = int(tokens[0])
            assert tokens.tolist() == [job, job + 1, job + 2][: 1 + job % 3]
            assert hidden[:, 0].tolist() == [job] * len(tokens)
            jobs.add(job)
    assert jobs == set(range(60))


def test_held_out_replies_have_every_temperature(tmp_path: Path) -> None:
    """Every twentieth job would do when temperatures do not take turns; with two of them all would be greedy."""
    fill(tmp_path, range(200))
    _, held_out = load(tmp_path, 0.05)
    odd = sum(int(tokens[0]) % 2 for _, tokens in held_out.pieces())
    assert 0.3 < odd / held_out.replies < 0.7


def test_more_replies_never_move_one_from_held_out_to_training(tmp_path: Path) -> None:
    fill(tmp_path, range(60))
    before = {int(tokens[0]) for _, tokens in load(tmp_path, 0.1)[1].pieces()}
    fill(tmp_path, range(60, 120))
    assert before < {int(tokens[0]) for _, tokens in load(tmp_path, 0.1)[1].pieces()}


def test_two_replies_are_enough_and_one_is_not(tmp_path: Path) -> None:
    fill(tmp_path, range(7, 8))
    with pytest.raises(TrainingError, match="--tokens"):
        load(tmp_path, 0.05)
    fill(tmp_path, range(8, 9))
    training, held_out = load(tmp_path, 0.05)
    assert training.replies == held_out.replies == 1


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, range(10))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100))
    with pytest.raises(OutOfMemory, match="hidden states of 19 training tokens"):
        load(tmp_path, 0.1)


def test_the_draft_vocabulary_is_the_most_frequent_tokens() -> None:
    ids, coverage = draft_vocabulary(corpus([7, 7, 7, 2, 2, 9, 4]), 3, 10)
    assert ids is not None
    assert ids.tolist() == [2, 4, 7], "4 and 9 are equally frequent: the lower one"
    assert coverage == pytest.approx(6 / 7)
    assert draft_vocabulary(corpus([1]), 0, 10) == (None, 1.0)
    assert draft_vocabulary(corpus([1]), 10, 10) == (None, 1.0)
