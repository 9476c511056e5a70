"""Before any weights come: what this machine has no memory for is refused, to run it and to convert it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medusa_core import fit
from medusa_core.errors import DoesNotFit, OutOfMemory
from medusa_core.hub.fitting import download_check
from medusa_core.hub.listing import Kind, Listing, RemoteFile

MIB = 2**20


def listing(kind: Kind, weights: str, parameters: int) -> Listing:
    files = (RemoteFile("config.json", 10, "", "a"), RemoteFile(weights, 100 * MIB, "b", ""))
    return Listing("Maker/Tiny", "main", "c" * 40, kind, "mit", parameters, files)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Free memory by device."""
    sizes = {"cpu": 100 * 2**30, "cuda": 100 * 2**30}
    monkeypatch.setattr(fit, "free_bytes", lambda device: sizes[device])
    return sizes


def test_the_weights_are_counted_as_the_hub_counts_them_or_by_their_files(tmp_path: Path, free: dict[str, int]) -> None:
    check = download_check("Maker/Tiny", "bf16", "cpu", 0)
    check(listing("model", "model.safetensors", 10**9), tmp_path)
    free["cpu"] = 2 * 2**30
    with pytest.raises(DoesNotFit, match=r"Maker/Tiny needs about 2\.8 GiB in bf16"):
        check(listing("model", "model.safetensors", 10**9), tmp_path)
    check(listing("model", "model.safetensors", 0), tmp_path)  # 100 MiB of 16-bit weights
    check(listing("heads", "heads.safetensors", 10**12), tmp_path)  # heads are small, whatever is said of them


def test_what_the_model_in_use_gives_back_counts(tmp_path: Path, free: dict[str, int]) -> None:
    free["cpu"] = 2 * 2**30
    download_check("Maker/Tiny", "bf16", "cpu", 0, freed=2**30)(listing("model", "m.safetensors", 10**9), tmp_path)


def test_a_gguf_file_must_be_converted_in_memory_whatever_it_runs_on(
    tmp_path: Path, free: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    check, model = download_check("Maker/Tiny", "bf16", "cuda", 0), listing("gguf", "tiny.gguf", 10**9)
    check(model, tmp_path)
    free["cpu"] = 2**30
    with pytest.raises(
        OutOfMemory, match=r"Converting Maker/Tiny \(1\.00 billion weights\) takes about .* GiB"
    ) as caught:
        check(model, tmp_path)
    assert not isinstance(caught.value, DoesNotFit), "downloading it anyway would not help"
