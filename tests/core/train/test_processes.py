"""Alone among its kind, a process is the one that writes; precision follows from the device and can be changed."""

from __future__ import annotations

import pytest
import torch

from medusa_core.train import processes

CPU = torch.device("cpu")


def test_alone_is_main() -> None:
    accelerator = processes.join(CPU, "no")
    assert accelerator.num_processes == 1
    assert accelerator.device == CPU
    assert processes.is_main()


def test_one_training_after_another_may_have_another_precision() -> None:
    processes.enter("cpu")
    for precision in ("no", "bf16", "no"):
        assert processes.join(CPU, precision).mixed_precision == precision


@pytest.mark.parametrize(("has", "expected"), [({"avx512_bf16": True}, "bf16"), ({"avx512_bf16": False}, "no")])
def test_auto_asks_the_processor(monkeypatch: pytest.MonkeyPatch, has: dict[str, bool], expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert processes.precision(CPU, "auto") == expected
    assert processes.precision(CPU, "no") == "no"
