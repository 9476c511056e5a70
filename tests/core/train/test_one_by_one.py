"""A model that takes one sequence at a time writes the replies that it would write many at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.backbone.stock import StockBackbone
from medusa_core.config import DistillConfig
from medusa_core.errors import ModelUnsupported
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_model, tiny_tokenizer
from medusa_core.train.distill import distill
from medusa_core.train.one_by_one import OneByOne, Rows, batched
from medusa_core.train.shards import read_shards

DATA = DistillConfig(tokens=150, places=3, max_reply_tokens=24, self_written=0.0, multi_turn=0.0)


@pytest.fixture
def single() -> StockBackbone:
    model = tiny_model("llama")
    return StockBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"))


@pytest.fixture
def many() -> LeanBackbone:
    model = tiny_model("llama")
    return LeanBackbone(model, make_spec(model, tiny_tokenizer(), "tiny"), keep_model=True)


def test_the_same_replies(single: StockBackbone, many: LeanBackbone, tmp_path: Path) -> None:
    text = ChatText(tiny_tokenizer(), [END_ID])
    written = []
    for backbone, name in ((single, "single"), (many, "many")):
        writer, data = batched(backbone, DATA)
        assert isinstance(writer, OneByOne) is (name == "single")
        *_, last = distill(writer, text, tmp_path / name, data)
        assert last.done == 150
        written.append({reply.job: reply for reply in read_shards(tmp_path / name)})
    assert written[0].keys() == written[1].keys()
    for job, reply in written[0].items():
        assert reply.token_ids == written[1][job].token_ids
        torch.testing.assert_close(reply.hidden, written[1][job].hidden, rtol=0.02, atol=0.02)


def test_few_at_once(single: StockBackbone, many: LeanBackbone) -> None:
    asked = replace(DATA, places=64)
    assert batched(single, asked)[1].places == 4
    assert batched(many, asked) == (many, asked)


def test_a_free_place_stays_free(single: StockBackbone) -> None:
    writer = OneByOne(single)
    rows = writer.new_batch_cache(2, 10)
    cache = writer.new_cache()
    with torch.inference_mode():
        writer.forward(torch.tensor([1, 2, 3]), torch.arange(3), None, cache)
        rows.move_in(1, cache)
        hidden = writer.forward_batch(torch.tensor([7, 8]), rows)
    assert rows.lengths.tolist() == [0, 4]
    assert not hidden[0].any()
    assert hidden[1].any()
    rows.lengths[1] = 0
    writer.forward_batch(torch.tensor([7, 8]), rows)
    assert rows.caches == [None, None]
    with pytest.raises(TypeError, match="need caches of their own"):
        writer.forward_batch(torch.tensor([7]), cache)  # type: ignore[arg-type]
    assert isinstance(rows, Rows)
    assert writer.batch_cache_bytes(2, 10) == 2 * 10 * 2 * 2 * 64 * 4


def test_a_model_that_cannot_verify_guesses_is_refused(single: StockBackbone) -> None:
    single._spec = replace(single.spec, no_trees="its layers cannot forget")
    with pytest.raises(ModelUnsupported, match=r"would be of no use: .* since its layers cannot forget"):
        batched(single, DATA)
