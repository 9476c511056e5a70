"""Switching models in the whole app: never two in memory, what the old one took is free for the next."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot
from transformers import LlamaConfig, LlamaForCausalLM

from app.application import Application
from app.controller import Phase
from app.memory import resident_bytes
from app.views.model_manager import ModelManager
from medusa_core import fit
from medusa_core.backbone import load as loading
from medusa_core.events import Progress
from medusa_core.fit import give_back
from medusa_core.testing import ReplayChat, scripted_reply
from medusa_core.tiny import END_ID, save_tiny_model, tiny_tokenizer
from tests.app.test_models import at_rest, opened

Start = Callable[..., Application]
FIRST = {"model": "First", "heads": "none"}


def as_it_is(_app: Application) -> None:
    """Nothing is changed before the app is shown."""


def test_switching_gives_the_memory_back(start_real: Start, profile: Path, qtbot: QtBot) -> None:
    models = profile / "models"
    first, second = save_tiny_model(models / "First", seed=1), save_tiny_model(models / "Maker" / "Second", seed=2)
    app = start_real(FIRST, as_it_is)
    manager = opened(app, qtbot)
    assert manager.things[str(first)].use_button.text() == "In use"
    assert not manager.things[str(first)].remove_action.isEnabled()
    old = weakref.ref(app.controller.model.backbone)  # type: ignore[union-attr]
    app.controller.send("Hi")
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    manager.things[str(second)].use_button.click()
    qtbot.waitUntil(lambda: old() is None, timeout=20_000)  # before the next one is there
    qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
    assert app.controller.model is not None
    assert app.controller.model.info.name == "Second"
    assert (app.controller.settings["model"], app.controller.settings["heads"]) == ("Maker/Second", "default")
    qtbot.waitUntil(lambda: at_rest(app) and manager.things[str(second)].use_button.text() == "In use", timeout=20_000)
    assert manager.things[str(first)].use_button.isEnabled()
    gc.unfreeze()


def large(folder: Path, seed: int) -> Path:
    """A model of 55 million weights: 220 MB in fp32."""
    config = LlamaConfig(
        vocab_size=264,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=256,
        eos_token_id=END_ID,
        pad_token_id=END_ID,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_two_large_models_are_never_in_memory_together(
    start_real: Start, profile: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    rows = [str(large(profile / "models" / name, seed)) for seed, name in enumerate(("First", "Second"))]
    alive: list[bool] = []
    give_back()  # what compiling kernels or making the models took: a model that is loaded into it adds nothing
    load, before = loading._load_model, resident_bytes()

    def watched(*given: Any) -> Any:
        alive.append(old() is not None)
        return load(*given)

    app = start_real({**FIRST, "max_new_tokens": 4}, as_it_is)
    manager = opened(app, qtbot)
    app.window.training_action.trigger()  # which looks at the model too
    monkeypatch.setattr(loading, "_load_model", watched)
    one = 0
    for turn in range(4):
        app.controller.send("Hi")
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
        one = one or resident_bytes()
        assert one > before + 200e6, "the model is in memory"
        old = weakref.ref(app.controller.model.backbone)  # type: ignore[union-attr]
        manager.things[rows[1 - turn % 2]].use_button.click()
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=20_000)
        qtbot.waitUntil(lambda: at_rest(app), timeout=20_000)
        assert resident_bytes() < one + 110e6, f"after {turn + 1} switches"
    assert alive == [False] * 4, "the old one had gone before the next one came"
    gc.unfreeze()


def test_what_the_loaded_model_takes_counts_as_free_for_the_next(
    start_app: Start, chat: ReplayChat, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(fit, "free_bytes", lambda _device: 2**20)
    app = start_app()
    assert "fits this machine" not in said_of_fitting(opened(app, qtbot))
    chat.info = replace(chat.info, parameters=2_000_000_000)
    app.models.look()
    manager = opened(app, qtbot)
    assert "fits this machine" in said_of_fitting(manager)
    assert "does not fit this machine" in said_of_fitting(manager), "the largest ones"


def said_of_fitting(manager: ModelManager) -> str:
    return " ".join(row.facts.text() for row in manager.offers.values())


class LargeChat(ReplayChat):
    """Takes 200 MB, and refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        super().__init__(events=scripted_reply(3))
        self.weights, self.itself = np.ones(25_000_000), self


def test_the_resident_size_is_that_of_one_model(start_app: Start, qtbot: QtBot) -> None:
    def opener(*_: object) -> Generator[Progress, None, ReplayChat]:
        yield Progress("Reading the weights", 1, 2)
        return LargeChat()

    app = start_app(opener)
    one = resident_bytes()
    for _ in range(3):
        app.controller.send("Hi")
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
        app.controller.load()
        qtbot.waitUntil(lambda: app.controller.phase is Phase.READY, timeout=5000)
    assert resident_bytes() < one + 100e6
    gc.unfreeze()
