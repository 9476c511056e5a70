"""Headers of weight files, read without the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medusa_core.errors import ModelUnsupported
from medusa_core.weight_files import TensorHeader, folder_tensors, read_header


@pytest.fixture
def file(tmp_path: Path) -> Path:
    weights = {"a": torch.zeros(3, 5, dtype=torch.bfloat16), "b": torch.zeros(7), "c": torch.zeros(0)}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path / "model.safetensors"


def test_names_shapes_and_dtypes_are_read(file: Path) -> None:
    header = read_header(file)
    assert header == {"a": TensorHeader("BF16", (3, 5)), "b": TensorHeader("F32", (7,)), "c": TensorHeader("F32", (0,))}
    assert [header[name].numbers for name in "abc"] == [15, 7, 0]


@pytest.mark.parametrize("length", [0, 4, 8, 20, -1])
def test_a_file_that_is_cut_off_is_named(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ModelUnsupported, match=r"model\.safetensors is damaged.*Get the model again"):
        read_header(file)


@pytest.mark.parametrize("header", [b"[]", b"{", b'{"a": {"dtype": "F32"}}', b'{"a": 3}', b"\xff\xff"])
def test_a_broken_header_is_named(file: Path, header: bytes) -> None:
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelUnsupported, match=r"model\.safetensors is damaged"):
        read_header(file)


def test_a_models_files_are_told_from_others_beside_them(file: Path) -> None:
    save_file({"z": torch.zeros(1)}, file.parent / "consolidated.safetensors")
    assert set(folder_tensors(file.parent)) == {"a", "b", "c"}
    file.unlink()
    assert set(folder_tensors(file.parent)) == {"z"}
