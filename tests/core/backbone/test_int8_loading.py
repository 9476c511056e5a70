"""int8 from a folder: chosen where it works, refused or replaced where not; measured once, kept beside the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from medusa_core.backbone import calibration, int8_loading
from medusa_core.backbone.base import Backbone
from medusa_core.backbone.int8 import Int8Backbone
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import load_backbone
from medusa_core.config import Dtype
from medusa_core.errors import ConfigError, ModelUnsupported
from medusa_core.tiny import save_tiny_model, tiny_model


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What was found out about the machine is asked again."""
    int8_loading.machine_problem.cache_clear()
    yield
    int8_loading.machine_problem.cache_clear()


def loaded(folder: Path, dtype: Dtype) -> tuple[Backbone, str, list[str]]:
    loading, texts = load_backbone(folder, dtype, "cpu"), []
    while True:
        try:
            texts.append(next(loading).stage)
        except StopIteration as finished:
            backbone, _, precision = finished.value
            return backbone, precision, texts


def test_auto_is_int8_measured_and_compiled_with_progress(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "tiny")
    backbone, precision, texts = loaded(folder, "auto")
    assert isinstance(backbone, Int8Backbone)
    assert precision == "int8"
    assert [text.split(":")[0] for text in texts[-2:]] == ["Preparing int8", "Preparing int8"]
    assert (folder / calibration.FILE).is_file()
    again, _, texts = loaded(folder, "int8")
    assert not any("writes" in text for text in texts)  # what was measured is found
    with torch.inference_mode():
        ids, positions = torch.tensor([1, 50, 100]), torch.arange(3)
        first, second = (b.forward(ids, positions, None, b.new_cache()) for b in (backbone, again))
    assert torch.equal(first, second)


def test_where_the_machine_cannot_int8_is_refused_and_auto_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8_loading, "machine_problem", lambda: "this processor has none of it")
    folder = save_tiny_model(tmp_path / "tiny")
    with pytest.raises(
        ConfigError, match=r"int8 cannot be used here: this processor has none of it.*Choose bf16 or fp32"
    ):
        loaded(folder, "int8")
    backbone, precision, _ = loaded(folder, "auto")
    assert isinstance(backbone, LeanBackbone)
    assert precision in [f"{name} (no int8: this processor has none of it)" for name in ("fp32", "bf16")]


def test_without_numba_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_loading.importlib.util, "find_spec", lambda _name: None)
    assert int8_loading.machine_problem() == "numba is not installed"


def test_a_model_that_cannot_is_loaded_otherwise_and_the_reason_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8_loading, "model_problem", lambda _model: "its heads are odd")
    folder = save_tiny_model(tmp_path / "tiny")
    backbone, precision, _ = loaded(folder, "auto")
    assert isinstance(backbone, LeanBackbone)
    assert precision == f"{'bf16' if backbone.dtype == torch.bfloat16 else 'fp32'} (no int8: its heads are odd)"
    with pytest.raises(ModelUnsupported, match="tiny cannot run in int8: its heads are odd"):
        loaded(folder, "int8")


def test_measurements_of_another_model_or_a_damaged_file_are_not_taken(tmp_path: Path) -> None:
    sizes = {"0.qkv": torch.ones(4)}
    assert calibration.load(tmp_path, "a") is None
    calibration.save(tmp_path, "a", sizes)
    found = calibration.load(tmp_path, "a")
    assert found is not None
    assert torch.equal(found["0.qkv"], sizes["0.qkv"])
    assert calibration.load(tmp_path, "b") is None
    (tmp_path / calibration.FILE).write_bytes(b"damaged")
    assert calibration.load(tmp_path, "a") is None


def test_a_folder_that_cannot_be_written_to_is_no_failure(tmp_path: Path) -> None:
    calibration.save(tmp_path / "nowhere", "a", {"0.qkv": torch.ones(4)})


def test_measuring_sees_the_input_of_every_product_and_leaves_no_hook() -> None:
    model = tiny_model("llama")
    sizes = calibration.measure(model, [[1, 2, 3]])
    assert set(sizes) == {f"{i}.{name}" for i in (0, 1) for name in ("qkv", "out", "gate_up", "down")} | {"output"}
    assert sizes["1.down"].shape == (96,)
    with torch.inference_mode():
        states = model(input_ids=torch.tensor([[1, 2, 3]]), output_hidden_states=True).hidden_states
    assert (sizes["output"] >= states[-1][0].abs().amax(0) - 1e-5).all()  # the largest
    assert sizes["0.qkv"].min() > 0
    assert sizes["0.qkv"].max() < 1  # relative to each row's largest
    assert not any(module._forward_pre_hooks for module in model.modules())
