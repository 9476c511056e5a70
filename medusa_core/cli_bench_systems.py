"""The systems that `bench` compares, by name: this program's settings and other programs, as far as they are there.

Knows nothing of measuring.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medusa_core import hub
from medusa_core.cli_options import finish
from medusa_core.config import OWN_SYSTEMS, BenchConfig, DecodingConfig
from medusa_core.errors import ConfigError

if TYPE_CHECKING:
    from medusa_core.bench.records import BenchPrompt
    from medusa_core.bench.runner import System
    from medusa_core.chat import Chat


def make_systems(
    chat: Chat,
    prompts: Sequence[BenchPrompt],
    config: BenchConfig,
    decoding: DecodingConfig,
    options: argparse.Namespace,
) -> tuple[list[System], list[str]]:
    """The systems asked for, and a note on each that cannot be had."""
    from medusa_core.bench.own import own_system

    systems: list[System] = []
    notes: list[str] = []
    if chat.info.adapted:
        notes.append("The heads brought adapters, so this program decodes a changed model; other programs do not.")
    others = _Others(chat, prompts, config, decoding, options)
    for name in config.systems:
        if name in OWN_SYSTEMS:
            systems.append(own_system(name, chat, decoding))
        elif name == "llama.cpp":
            system, note = others.llama()
            systems += [system] if system is not None else []
            notes += [note] if note else []
        else:
            systems.append(others.transformers(name))
    if not systems:
        raise ConfigError(" ".join(notes) + " Nothing is left to measure: name other --systems.")
    return systems, notes


class _Others:
    """Makes the systems that are other programs."""

    def __init__(
        self,
        chat: Chat,
        prompts: Sequence[BenchPrompt],
        config: BenchConfig,
        decoding: DecodingConfig,
        options: argparse.Namespace,
    ) -> None:
        self._chat, self._prompts, self._config = chat, prompts, config
        self._decoding, self._options = decoding, options
        self._models: Any = None

    def transformers(self, name: str) -> System:
        """Both of them share what is loaded."""
        from medusa_core.bench.transformers_generate import TransformersModels, TransformersSystem, load_transformers

        if self._models is None:
            cache = self._options.cache or hub.default_cache()
            folder = finish(hub.model_folder(self._options.model, cache))
            self._models = TransformersModels(load_transformers(folder, self._chat.backbone.device))
        return TransformersSystem(
            name,
            self._models,
            self._chat.text.stop_ids,
            self._decoding.acceptance,
            lookup=name == "transformers-lookup",
            seed=self._decoding.seed,
        )

    def llama(self) -> tuple[System | None, str]:
        """The system, or why there is none."""
        from medusa_core.bench.llama import ABSENT, LlamaSystem, llama_library
        from medusa_core.bench.machine import usable_cores

        library = llama_library()
        if library is None:
            return None, ABSENT
        gguf = self._options.gguf
        if gguf is None and self._options.model != hub.DEFAULT:
            return None, f"llama.cpp is left out: name the GGUF file of {self._options.model} with --gguf."
        gguf = hub.default_gguf() if gguf is None else gguf
        if not gguf.is_file():
            raise ConfigError(f"--gguf {gguf}: there is no such file")
        longest = max(len(prompt.token_ids) for prompt in self._prompts)
        return (
            LlamaSystem(
                library,
                gguf,
                self._chat.text.stop_ids,
                self._decoding.acceptance,
                context=longest + max(self._config.max_new_tokens, self._config.warm_up),
                threads=usable_cores(),
                gpu=self._chat.backbone.device.type == "cuda",
                seed=self._decoding.seed,
            ),
            "",
        )
