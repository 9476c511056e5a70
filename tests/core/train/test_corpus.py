"""Replies end to end: what is ahead of a position, who is held out, which tokens are worth guessing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medusa_core.errors import TrainingError
from medusa_core.train.corpus import Corpus, draft_vocabulary, held_out_jobs, load
from medusa_core.train.shards import Reply, ReplySize, write_shard


def fill(folder: Path, jobs: range) -> None:
    for job in jobs:
        tokens = [job, job + 1, job + 2][: 1 + job % 3]
        write_shard(folder, [Reply(job, 0.7 * (job % 2), [1], tokens, torch.full((len(tokens), 4), float(job)))])


def corpus(*replies: list[int]) -> Corpus:
    return Corpus([(reply, torch.tensor(reply)[:, None] + torch.tensor([[0.0, 0.5]])) for reply in replies])


def test_ahead_ends_with_the_reply() -> None:
    both = corpus([10, 11, 12], [20, 21])
    targets, valid = both.ahead(torch.arange(5), 2)
    assert valid.tolist() == [True, False, False, False, False]
    assert both.tokens[targets[valid]].tolist() == [12]
    assert both.ahead(torch.arange(5), 1)[1].tolist() == [True, True, False, True, False]


def test_a_corpus_is_its_replies_end_to_end() -> None:
    both = corpus([10, 11, 12], [20, 21])
    assert both.tokens.tolist() == [10, 11, 12, 20, 21]
    assert both.left.tolist() == [2, 1, 0, 1, 0]
    assert (both.replies, both.hidden_size) == (2, 2)
    assert [tokens.tolist() for _, tokens in both.pieces()] == [[10, 11, 12], [20, 21]]
    assert all(torch.equal(states[:, 0], tokens.float()) for states, tokens in both.pieces())


@pytest.mark.parametrize("positions", [[], [0], [4], [0, 1, 2, 3, 4], [2, 3], [4, 3, 2, 1, 0], [1, 1, 2, 0, 3, 4, 4]])
def test_states_of_any_positions(positions: list[int]) -> None:
    """Neighbours, also across the border of two replies; backwards; the same ones again; none."""
    both = corpus([10, 11, 12], [20, 21])
    asked = torch.tensor(positions, dtype=torch.long)
    assert both.states(asked)[:, 0].tolist() == both.tokens[asked].tolist()


def test_hidden_states_stay_in_their_files(tmp_path: Path) -> None:
    """1.5 million tokens of a small model are 1.7 GB: pages of the files, read when a batch needs them."""
    fill(tmp_path, range(60))
    training, held_out = load(tmp_path, 0.1)
    written = sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))
    files = {states.untyped_storage().data_ptr(): states.untyped_storage() for states, _ in training.pieces()}
    files |= {states.untyped_storage().data_ptr(): states.untyped_storage() for states, _ in held_out.pieces()}
    assert sum(file.nbytes() for file in files.values()) <= written
    if Path("/proc/self/smaps").exists():
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        spans = [line.split()[0].split("-") for line in lines if str(tmp_path) in line]
        for start in files:
            assert any(int(low, 16) <= start < int(high, 16) for low, high in spans), "copied, not mapped"


def test_every_conversation_goes_whole_into_one_part(tmp_path: Path) -> None:
    fill(tmp_path, range(60))
    training, held_out = load(tmp_path, 0.1)
    assert training.replies + held_out.replies == 60
    assert held_out.replies == 8
    parts = []
    for part in (training, held_out):
        jobs = set()
        for hidden, tokens in part.pieces():
            job = int(tokens[0])
            assert tokens.tolist() == [job, job + 1, job + 2][: 1 + job % 3]
            assert hidden[:, 0].tolist() == [job] * len(tokens)
            jobs.add(job)
        parts.append(jobs)
    assert parts[0] | parts[1] == set(range(60))
    assert not {job // 2 for job in parts[0]} & {job // 2 for job in parts[1]}


def test_held_out_conversations_have_every_temperature(tmp_path: Path) -> None:
    """Every twentieth one would do when temperatures do not take turns; with two of them all would be greedy."""
    sizes = [ReplySize(job, 1) for job in range(0, 400, 2)]
    held = held_out_jobs(sizes, 0.05)
    odd = sum(job // 2 % 2 for job in held)
    assert 0.3 < odd / len(held) < 0.7


def test_more_replies_never_move_one_from_held_out_to_training(tmp_path: Path) -> None:
    before = held_out_jobs([ReplySize(job, 1) for job in range(60)], 0.1)
    assert before < held_out_jobs([ReplySize(job, 1) for job in range(120)], 0.1)


def test_two_conversations_are_enough_and_one_is_not(tmp_path: Path) -> None:
    fill(tmp_path, range(6, 8))
    with pytest.raises(TrainingError, match=r"2 replies of 1 conversations are too few.*more tokens"):
        load(tmp_path, 0.05)
    fill(tmp_path, range(8, 9))
    training, held_out = load(tmp_path, 0.05)
    assert sorted([training.replies, held_out.replies]) == [1, 2]


def test_the_draft_vocabulary_is_the_most_frequent_tokens() -> None:
    ids, coverage = draft_vocabulary(corpus([7, 7, 7, 2, 2, 9, 4]), 3, 10)
    assert ids is not None
    assert ids.tolist() == [2, 4, 7], "4 and 9 are equally frequent: the lower one"
    assert coverage == pytest.approx(6 / 7)
    assert draft_vocabulary(corpus([1]), 0, 10) == (None, 1.0)
    assert draft_vocabulary(corpus([1]), 10, 10) == (None, 1.0)
