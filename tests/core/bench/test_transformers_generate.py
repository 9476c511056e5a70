"""transformers in the bench: the same greedy reply, passes and tokens counted as everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.bench.own import own_system
from medusa_core.bench.transformers_generate import TransformersModels, TransformersSystem, load_transformers
from medusa_core.chat import Chat
from medusa_core.config import DecodingConfig, GreedyAcceptance, SamplingAcceptance
from medusa_core.errors import OutOfMemory
from medusa_core.tiny import tiny_model

STOPS = frozenset({256})


def system(load: Any, *, lookup: bool = False, acceptance: Any = None) -> TransformersSystem:
    models = TransformersModels(load)
    return TransformersSystem("t", models, STOPS, acceptance or GreedyAcceptance(), lookup=lookup, seed=1)


def prompt(chat: Chat) -> list[int]:
    return chat.text.prompt_ids([{"role": "user", "content": "abc abc abc abc"}])


@pytest.mark.parametrize("lookup", [False, True])
def test_the_reply_is_that_of_plain_decoding(tiny_chat: Chat, tiny_folder: Path, lookup: bool) -> None:
    plain = own_system("plain", tiny_chat, DecodingConfig()).answer(prompt(tiny_chat), 32)
    found = system(load_transformers(tiny_folder, torch.device("cpu")), lookup=lookup)
    answer = found.answer(prompt(tiny_chat), 32)
    assert answer.token_ids == plain.token_ids
    stopped = len(plain.token_ids) < 32
    if lookup:
        assert answer.steps <= answer.decoded <= len(answer.token_ids)
    else:
        # The prompt's pass brings the first token; each further pass one, a stop token among them.
        assert answer.steps == answer.decoded == len(answer.token_ids) - 1 + stopped
    assert found.answer(prompt(tiny_chat), 32).token_ids == answer.token_ids


def test_a_stop_token_ends_the_reply_and_is_no_part_of_it(tiny_chat: Chat, tiny_folder: Path) -> None:
    whole = own_system("plain", tiny_chat, DecodingConfig()).answer(prompt(tiny_chat), 12).token_ids
    stop = whole[5]
    models = TransformersModels(load_transformers(tiny_folder, torch.device("cpu")))
    found = TransformersSystem("t", models, frozenset({stop}), GreedyAcceptance(), lookup=False)
    answer = found.answer(prompt(tiny_chat), 12)
    assert answer.token_ids == whole[: whole.index(stop)]
    assert answer.decoded == answer.steps == len(answer.token_ids)


def test_both_precisions_are_tried_and_the_faster_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def load(precision: str) -> Any:
        loaded.append(precision)
        return tiny_model().to(torch.bfloat16 if precision == "bf16" else torch.float32)

    found = system(load)
    assert not loaded, "nothing is loaded before it is needed"
    found.warm_up([1, 2, 3], 4)
    assert loaded == ["bf16", "fp32"]
    rates = {name: float(found.about[f"tokens_per_second_warming_up_{name}"]) for name in loaded}
    assert rates[found.about["precision"]] == max(rates.values())
    assert found.about["program"].startswith("transformers ")
    found.begin_run()
    assert found.answer([1, 2, 3], 4).token_ids == found.answer([1, 2, 3], 4).token_ids
    assert loaded == ["bf16", "fp32"], "each once"


def test_what_nobody_chose_leaves_the_memory() -> None:
    loaded: list[str] = []
    models = TransformersModels(lambda precision: loaded.append(precision) or object())
    models.join("one")
    models.join("two")
    first = models.get("bf16")
    models.get("fp32")
    models.settle("one", "bf16")
    assert len({id(models.get(name)) for name in ("bf16", "fp32")}) == 2, "another may still choose it"
    models.settle("two", "bf16")
    assert models.get("bf16") is first
    models.get("fp32")
    assert loaded == ["bf16", "fp32", "fp32"]


def test_a_precision_without_room_is_left_out() -> None:
    def load(precision: str) -> Any:
        if precision == "fp32":
            raise OutOfMemory("no room")
        return tiny_model().to(torch.bfloat16)

    found = system(load)
    found.warm_up([1, 2, 3], 4)
    assert found.about["precision"] == "bf16"

    def none(precision: str) -> Any:
        raise OutOfMemory("no room")

    with pytest.raises(OutOfMemory, match="no room"):
        system(none).warm_up([1, 2, 3], 4)


def test_sampling_draws_with_the_same_options() -> None:
    drawing = system(lambda precision: tiny_model(), acceptance=SamplingAcceptance(temperature=1.5, top_p=1.0))
    assert "do_sample=True" in drawing.about["options"]
    assert "temperature=1.5" in drawing.about["options"]
    greedy = system(lambda precision: tiny_model())
    assert "do_sample=False" in greedy.about["options"]
    drawn, same = drawing.answer([1, 2, 3], 16).token_ids, drawing.answer([1, 2, 3], 16).token_ids
    assert drawn == same, "one seed, one reply"
    assert drawn != greedy.answer([1, 2, 3], 16).token_ids
