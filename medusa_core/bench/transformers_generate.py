"""`transformers.generate` as a system of the bench, plain or with prompt lookup, in its fastest precision.

Each precision is loaded once and shared by the systems that use it; which one is fastest each finds out while warming
up. Knows nothing of how this library decodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from medusa_core.backbone.load import memory_errors, quiet_loading
from medusa_core.bench.records import Answer
from medusa_core.config import Acceptance, SamplingAcceptance
from medusa_core.errors import OutOfMemory

PRECISIONS = ("bf16", "fp32")
LOOKUP_TOKENS = 10
_DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class TransformersModels:
    """The model as transformers runs it, by precision, loaded when first asked for and let go when nobody chose it."""

    def __init__(self, load: Callable[[str], Any]) -> None:
        """`load` takes a name of PRECISIONS."""
        self._load = load
        self._models: dict[str, Any] = {}
        self._choices: dict[object, str] = {}  # by user; "" until it has chosen

    def join(self, user: object) -> None:
        """Someone is going to choose."""
        self._choices[user] = ""

    def settle(self, user: object, precision: str) -> None:
        """The user's choice. Once all have chosen, what nobody wants leaves the memory."""
        self._choices[user] = precision
        if all(self._choices.values()):
            self._models = {name: model for name, model in self._models.items() if name in self._choices.values()}

    def get(self, precision: str) -> Any:
        """The model in that precision."""
        if precision not in self._models:
            self._models[precision] = self._load(precision)
        return self._models[precision]


def load_transformers(folder: Path, device: torch.device) -> Callable[[str], Any]:
    """Loads the model folder in a precision, onto the device."""

    def load(precision: str) -> Any:
        from transformers import AutoModelForCausalLM

        no_room = (
            f"There was not enough memory for {folder.name} in {precision} through transformers, which --systems asks "
            "for. Close other programs, or leave transformers out."
        )
        with memory_errors(no_room), quiet_loading():
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=_DTYPES[precision], local_files_only=True)
            return model.to(device).eval()

    return load


class TransformersSystem:
    """`model.generate` on one sequence."""

    def __init__(
        self,
        name: str,
        models: TransformersModels,
        stop_ids: frozenset[int],
        acceptance: Acceptance,
        *,
        lookup: bool,
        seed: int = 0,
    ) -> None:
        """Typical acceptance draws nothing and neither does this; sampling draws with the same options."""
        self._name, self._models, self._stop_ids = name, models, stop_ids
        self._options = _options(acceptance)
        if lookup:
            self._options["prompt_lookup_num_tokens"] = LOOKUP_TOKENS
        self._seed = seed
        self._precision = PRECISIONS[-1]
        self._tried: dict[str, float] = {}
        models.join(self)

    @property
    def name(self) -> str:
        """Its name in tables and files."""
        return self._name

    @property
    def about(self) -> dict[str, str]:
        """Version, the precision chosen, and what both brought."""
        tried = {f"tokens_per_second_warming_up_{name}": f"{rate:.1f}" for name, rate in self._tried.items()}
        options = ", ".join(f"{key}={value}" for key, value in sorted(self._options.items()))
        version = metadata.version("transformers")
        return {"program": f"transformers {version}", "precision": self._precision, "options": options, **tried}

    def warm_up(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        """Answer twice in each precision there is memory for; the one that is faster the second time stays."""
        problem: OutOfMemory | None = None
        for precision in PRECISIONS:
            self._precision = precision
            try:
                self.answer(prompt, max_new_tokens)
            except OutOfMemory as error:
                problem = error
                continue
            answer = self.answer(prompt, max_new_tokens)
            self._tried[precision] = (len(answer.token_ids) + 1) / (answer.first_token_seconds + answer.decode_seconds)
        if problem is not None and not self._tried:
            raise problem
        self._precision = max(self._tried, key=lambda precision: self._tried[precision])
        self._models.settle(self, self._precision)

    def begin_run(self) -> None:
        """It learns nothing."""

    @torch.inference_mode()
    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """Generate one reply."""
        from transformers import GenerationConfig

        model = self._models.get(self._precision)
        stops = sorted(self._stop_ids)
        config = GenerationConfig(
            max_new_tokens=max_new_tokens, eos_token_id=stops, pad_token_id=stops[0] if stops else 0, **self._options
        )
        # Entries that are not given would be taken from the model's own, which belong to its makers' demonstrations.
        model.generation_config = config
        ids = torch.tensor([prompt], device=model.device)
        torch.manual_seed(self._seed)
        watch = _Watch()
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=watch)
        return watch.answer(self._stop_ids)


def _options(acceptance: Acceptance) -> dict[str, Any]:
    if not isinstance(acceptance, SamplingAcceptance):
        return {"do_sample": False}
    penalty = {"repetition_penalty": acceptance.repetition_penalty}
    if not acceptance.temperature:
        return {"do_sample": False, **penalty}
    return {
        "do_sample": True,
        "temperature": acceptance.temperature,
        "top_p": acceptance.top_p,
        "top_k": acceptance.top_k,
        "min_p": acceptance.min_p or None,
        **penalty,
    }


class _Watch:
    """A streamer that notes when tokens come: first the prompt is put, then what each pass brought."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._times: list[float] = []
        self._tokens: list[list[int]] = []
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        """Take what a pass brought."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self._times.append(perf_counter())
        self._tokens.append(value.flatten().tolist())

    def end(self) -> None:
        """Nothing is held back."""

    def answer(self, stop_ids: frozenset[int]) -> Answer:
        """The whole reply, its stop token taken off."""
        tokens = [token for brought in self._tokens for token in brought]
        decoded = len(tokens) - len(self._tokens[0])
        if tokens[-1] in stop_ids:
            del tokens[-1]
        first, last = self._times[0], self._times[-1]
        return Answer(tuple(tokens), decoded, len(self._times) - 1, first - self._started, last - first)
