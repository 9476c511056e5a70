"""llama.cpp as a system of the bench, through the package `llama_cpp`, over a GGUF file. Optional: it may be absent.

It gets token ids, as everyone does; its own tokenizer and chat template are not asked. Knows nothing of prompts' texts.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from medusa_core.bench.records import Answer
from medusa_core.config import Acceptance, SamplingAcceptance
from medusa_core.errors import ModelUnsupported

NAME = "llama.cpp"
ABSENT = (
    "llama.cpp is left out: the package llama-cpp-python is not installed. Install the extra `bench` of this project "
    "with the versions in constraints.txt; it is compiled for this machine, which takes some minutes."
)


def llama_library() -> Any | None:
    """The package, or None where it is not installed."""
    try:
        return importlib.import_module("llama_cpp")
    except ModuleNotFoundError:
        return None


class LlamaSystem:
    """One context of llama.cpp, emptied before every reply."""

    def __init__(
        self,
        library: Any,
        gguf: Path,
        stop_ids: frozenset[int],
        acceptance: Acceptance,
        *,
        context: int,
        threads: int,
        gpu: bool,
        seed: int = 0,
    ) -> None:
        """`context`: tokens of the longest prompt and its reply together. The file is loaded by `warm_up`."""
        self._library, self._gguf, self._stop_ids = library, gguf, stop_ids
        self._options = _options(acceptance)
        self._loading = {
            "n_ctx": context,
            "n_threads": threads,
            "n_threads_batch": threads,
            "n_gpu_layers": -1 if gpu else 0,
            "seed": seed,
            "verbose": False,
        }
        self._model: Any = None

    @property
    def name(self) -> str:
        """Its name in tables and files."""
        return NAME

    @property
    def about(self) -> dict[str, str]:
        """Version, file and threads."""
        return {
            "program": f"llama-cpp-python {self._library.__version__}",
            "file": self._gguf.name,
            "precision": self._gguf.stem.rpartition(".")[2],
            "threads": str(self._loading["n_threads"]),
            "options": ", ".join(f"{key}={value}" for key, value in sorted(self._options.items())),
        }

    def warm_up(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        """Load the file and answer once."""
        if self._model is None:
            try:
                self._model = self._library.Llama(model_path=str(self._gguf), **self._loading)
            except (ValueError, RuntimeError, OSError) as error:
                raise ModelUnsupported(
                    f"llama.cpp cannot load {self._gguf}: {error}. Name another file with --gguf, or leave it out."
                ) from error
            self._check_vocabulary(prompt)
        self.answer(prompt, max_new_tokens)

    def begin_run(self) -> None:
        """It learns nothing."""

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """Generate one reply, one pass a token."""
        tokens: list[int] = []
        times: list[float] = []
        self._model.reset()  # nothing of the prompt may be reused from the reply before
        started = perf_counter()
        for token in self._model.generate(list(prompt), reset=True, **self._options):
            times.append(perf_counter())
            tokens.append(token)
            if token in self._stop_ids or len(tokens) >= max_new_tokens:
                break
        steps = len(tokens) - 1
        if tokens[-1] in self._stop_ids:
            del tokens[-1]
        return Answer(tuple(tokens), steps, steps, times[0] - started, times[-1] - times[0])

    def _check_vocabulary(self, prompt: Sequence[int]) -> None:
        size = int(self._model.n_vocab())
        if max((*prompt, *self._stop_ids)) >= size:
            raise ModelUnsupported(
                f"{self._gguf.name} has a vocabulary of {size} tokens and the prompts use more: it is another model's. "
                "Name the same model's GGUF file with --gguf."
            )


def _options(acceptance: Acceptance) -> dict[str, Any]:
    """Greedy, or the same draws; filters are applied before the temperature here, which is this program's own order."""
    if not isinstance(acceptance, SamplingAcceptance):
        return {"temp": 0.0, "repeat_penalty": 1.0}
    return {
        "temp": acceptance.temperature,
        "top_p": acceptance.top_p,
        "top_k": acceptance.top_k,
        "min_p": acceptance.min_p,
        "repeat_penalty": acceptance.repetition_penalty,
    }
