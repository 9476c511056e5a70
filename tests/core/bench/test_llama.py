"""llama.cpp in the bench, the library scripted: what it is asked, and what is counted."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from medusa_core.bench.llama import LlamaSystem, llama_library
from medusa_core.config import GreedyAcceptance, SamplingAcceptance
from medusa_core.errors import ModelUnsupported


class Llama:
    """Writes 10, 11, 12 ... to any prompt, and a stop token fifth."""

    made: list[dict[str, Any]] = []  # noqa: RUF012
    vocabulary = 100

    def __init__(self, **options: Any) -> None:
        if "broken" in options["model_path"]:
            raise ValueError("Failed to load model")
        Llama.made.append(options)
        self.resets = 0
        self.asked: list[tuple[list[int], dict[str, Any]]] = []

    def n_vocab(self) -> int:
        return Llama.vocabulary

    def reset(self) -> None:
        self.resets += 1

    def generate(self, tokens: Sequence[int], **options: Any) -> Iterator[int]:
        self.asked.append((list(tokens), options))
        yield from [10, 11, 12, 13, 2, 14, 15]


LIBRARY = SimpleNamespace(Llama=Llama, __version__="0.0")


def system(acceptance: Any = None, gguf: str = "Tiny.Q8_0.gguf") -> LlamaSystem:
    rule = acceptance or GreedyAcceptance()
    return LlamaSystem(LIBRARY, Path(gguf), frozenset({2}), rule, context=64, threads=3, gpu=False, seed=4)


def test_replies_end_at_a_stop_token_or_the_limit() -> None:
    Llama.made.clear()
    found = system()
    assert not Llama.made, "nothing is loaded before it is needed"
    found.warm_up([5, 6], 2)
    (options,) = Llama.made
    assert (options["n_ctx"], options["n_threads"], options["n_threads_batch"], options["n_gpu_layers"]) == (
        64,
        3,
        3,
        0,
    )
    stopped = found.answer([5, 6, 7], 20)
    assert (stopped.token_ids, stopped.decoded, stopped.steps) == ((10, 11, 12, 13), 4, 4)
    limited = found.answer([5, 6, 7], 3)
    assert (limited.token_ids, limited.decoded, limited.steps) == ((10, 11, 12), 2, 2)
    model = found._model
    assert model.resets == 3, "nothing of the prompt is reused"
    assert model.asked[1] == ([5, 6, 7], {"reset": True, "temp": 0.0, "repeat_penalty": 1.0})
    assert found.about["precision"] == "Q8_0"
    assert len(Llama.made) == 1


def test_sampling_draws_with_the_same_options() -> None:
    found = system(SamplingAcceptance(temperature=0.5, top_p=0.8, top_k=7, min_p=0.1, repetition_penalty=1.2))
    found.warm_up([5], 2)
    options = found._model.asked[0][1]
    assert {key: options[key] for key in ("temp", "top_p", "top_k", "min_p", "repeat_penalty")} == {
        "temp": 0.5,
        "top_p": 0.8,
        "top_k": 7,
        "min_p": 0.1,
        "repeat_penalty": 1.2,
    }


def test_a_file_that_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelUnsupported, match="cannot load broken"):
        system(gguf="broken.gguf").warm_up([5], 2)
    monkeypatch.setattr(Llama, "vocabulary", 6)
    with pytest.raises(ModelUnsupported, match="vocabulary of 6 tokens"):
        system().warm_up([5, 6], 2)


def test_the_library_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    assert llama_library() is None
    there = ModuleType("llama_cpp")
    monkeypatch.setitem(sys.modules, "llama_cpp", there)
    assert llama_library() is there
