"""The table of pairs: counted right, exact probabilities, saved whole, damage named; strengths follow the text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from medusa_core.errors import CheckpointError
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.pairs import PairTable, count_pairs, fit_strengths, load_pairs

VOCAB, HIDDEN = 12, 6


@pytest.fixture
def heads() -> MedusaHeads:
    shape = HeadsShape(
        num_heads=2, num_layers=1, hidden_size=HIDDEN, vocab_size=VOCAB, draft_vocab_size=8, shared_output=True
    )
    torch.manual_seed(0)
    return MedusaHeads(shape, torch.randn(VOCAB, HIDDEN), torch.tensor([0, 1, 2, 3, 5, 7, 9, 11]))


TEXTS = [torch.tensor([1, 5, 1, 5, 4, 11]), torch.tensor([5, 1]), torch.tensor([3])]


def test_pairs_are_counted_within_a_text(heads: MedusaHeads) -> None:
    table = count_pairs(TEXTS, VOCAB, heads.token_map, 2)
    found = {
        (first, int(heads.token_ids(torch.tensor(table.followers[at])))): table.boosts[at]
        for first in range(VOCAB)
        for at in range(table.after(first).start, table.after(first).stop)
    }
    assert found.keys() == {(1, 5), (5, 1), (4, 11)}, "5 -> 4 cannot be guessed; nothing crosses from text to text"
    usual = (3 + 0.5) / (9 + 0.5 * VOCAB)
    assert found[1, 5] == pytest.approx(np.log1p(2 / (10 * usual)))
    assert found[5, 1] == pytest.approx(np.log1p(2 / (10 * usual)))
    assert found[4, 11] > found[1, 5] / 2


def test_an_empty_text_gives_an_empty_table(heads: MedusaHeads) -> None:
    table = count_pairs([], VOCAB, heads.token_map, 2)
    assert len(table.followers) == 0
    assert table.after(3) == slice(0, 0)


def test_strengths_follow_what_comes(heads: MedusaHeads) -> None:
    """After 1 always comes 5 and after 5 always 1, which heads of random states cannot know."""
    reply = torch.tensor([1, 5] * 40)
    table = count_pairs([reply], VOCAB, heads.token_map, 2)
    strengths = fit_strengths(table, heads, (1.0, 1.0), [(torch.randn(80, HIDDEN), reply)])
    assert strengths == (1.0, 1.0)
    other = torch.randint(0, 4, (400,), generator=torch.Generator().manual_seed(1))
    misled = count_pairs([torch.tensor([token, 7]) for token in range(4)] * 50, VOCAB, heads.token_map, 2)
    assert fit_strengths(misled, heads, (1.0, 1.0), [(torch.randn(400, HIDDEN), other)]) == (0.0, 0.0)


def test_saved_and_read(heads: MedusaHeads, tmp_path: Path) -> None:
    table = replace(count_pairs(TEXTS, VOCAB, heads.token_map, 2), strengths=(0.5, 1.0))
    table.save(tmp_path / "pairs.safetensors")
    found = load_pairs(tmp_path / "pairs.safetensors", heads)
    assert isinstance(found, PairTable)
    assert found.strengths == (0.5, 1.0)
    np.testing.assert_array_equal(found.starts, table.starts)
    np.testing.assert_array_equal(found.followers, table.followers)
    np.testing.assert_allclose(found.boosts, table.boosts, rtol=1e-3)
    assert load_pairs(tmp_path / "nowhere", heads) is None


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("starts", lambda x: x[:-1], "starts has shape"),
        ("starts", lambda x: x[::-1].copy(), "starts does not divide"),
        ("followers", lambda x: x + 8, "outside the draft vocabulary of 8"),
        ("boosts", lambda x: -x, "finite and not negative"),
        ("boosts", lambda x: x * np.float16(np.nan), "finite and not negative"),
        ("strengths", lambda x: x[:1], "strengths has shape"),
        ("boosts", None, "instead of boosts, followers"),
    ],
)
def test_damage_is_named(heads: MedusaHeads, tmp_path: Path, name: str, change: object, message: str) -> None:
    path = tmp_path / "pairs.safetensors"
    count_pairs(TEXTS, VOCAB, heads.token_map, 2).save(path)
    tensors = load_file(path)
    if callable(change):
        tensors[name] = change(tensors[name])
    else:
        del tensors[name]
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=message):
        load_pairs(path, heads)
    path.write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match="is damaged"):
        load_pairs(path, heads)
