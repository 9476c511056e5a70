"""The largest logits of every row, as a sort would find them."""

from __future__ import annotations

import pytest
import torch

from medusa_core.backbone import picking
from medusa_core.backbone.picking import best, likeliest
from medusa_core.records import Scores


@pytest.fixture(params=["kernel", "without numba"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "kernel":
        monkeypatch.setattr(picking, "_kernel", lambda: None)


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("vocab", [5, 264, 4096, 5000, 49152 // 4 + 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_best_are_found_as_by_topk(vocab: int, dtype: torch.dtype) -> None:
    logits = torch.randn(5, vocab, generator=torch.Generator().manual_seed(vocab)).to(dtype)
    for rows in (logits, logits[:, : vocab - 1], logits[:1]):  # also where rows do not follow each other
        values, indices = best(rows, 8)
        assert values.tolist() == rows.topk(min(8, rows.shape[1])).values.tolist()
        assert rows.gather(1, indices).tolist() == values.tolist()
        assert all(len(set(row)) == len(row) for row in indices.tolist())
        assert rows.gather(1, torch.tensor(likeliest(rows))[:, None]).flatten().tolist() == rows.amax(1).tolist()


@pytest.mark.usefixtures("_either")
def test_impossible_tokens_are_never_the_best() -> None:
    logits = torch.full((2, 200), -torch.inf)
    logits[0, 150], logits[1, 3] = -5.0, 2.0
    assert likeliest(logits) == [150, 3]
    assert [ids[0] for ids in best(logits, 4)[1].tolist()] == [150, 3]
    assert all(len(set(ids)) == 4 for ids in best(logits, 4)[1].tolist())  # of impossible ones none comes twice


def test_of_equal_logits_the_first_token_is_the_likeliest() -> None:
    logits = torch.zeros(1, 300)
    logits[0, [70, 69, 299]] = 1
    assert likeliest(logits) == [69]


@pytest.mark.parametrize("kept", [True, False])
def test_what_a_pass_kept_is_what_its_logits_say(kept: bool) -> None:
    logits = torch.randn(5, 1000, generator=torch.Generator().manual_seed(4))
    logits[2, [7, 900]] = 9.0  # of equal ones the first is taken
    scores = Scores(logits, torch.zeros(5, 4), picking.largest(logits) if kept else None)
    values, token_ids = picking.best_of(scores)
    assert (scores.largest is not None) is kept
    assert token_ids.shape == (5, picking.KEPT)
    assert torch.equal(values, logits.topk(picking.KEPT).values)
    assert torch.equal(logits.gather(1, token_ids), values)
    assert picking.choices_of(scores) == likeliest(logits) == logits.argmax(-1).tolist()
    assert picking.choices_of(scores)[2] == 7
