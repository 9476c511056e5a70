"""The state of an unfinished training on disk: written whole or not at all, refused by another training.

Knows nothing of what is trained or of the loop.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from medusa_core.config import TrainConfig
from medusa_core.errors import DiskFull, TrainingError


class Resume:
    """One checkpoint file: the trained parameters, not the frozen ones, and the optimizer."""

    def __init__(self, path: Path, config: TrainConfig, items: int) -> None:
        self._path = path
        described = json.dumps({**asdict(config), "items": items}, sort_keys=True)
        self._key = hashlib.sha256(described.encode()).hexdigest()

    def restore(self, module: nn.Module, optimizer: Any) -> tuple[int, float]:
        """Load what is there; returns the steps already done and the smoothed loss, NaN before the first step."""
        if not self._path.exists():
            return 0, float("nan")
        try:
            state = torch.load(self._path, map_location="cpu", weights_only=True)
            key, step, smoothed, found = state["key"], int(state["step"]), float(state["loss"]), state["trained"]
        except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
            raise TrainingError(f"{self._path} is damaged ({error}); delete it to train from the start.") from error
        trained = _trained(module)
        if key != self._key or {n: t.shape for n, t in found.items()} != {n: t.shape for n, t in trained.items()}:
            raise TrainingError(
                f"{self._path} belongs to a training with other options or other data. "
                "Give the same options to go on with it, or delete it to start anew."
            )
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(found[name])
        optimizer.load_state_dict(state["optimizer"])
        return step, smoothed

    def save(self, module: nn.Module, optimizer: Any, step: int, smoothed: float) -> None:
        """Replace the checkpoint. Raises DiskFull with the one before it kept."""
        part = self._path.with_suffix(".part")
        state = {
            "key": self._key,
            "trained": {name: parameter.detach() for name, parameter in _trained(module).items()},
            "optimizer": optimizer.state_dict(),
            "step": step,
            "loss": smoothed,
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, part)
            os.replace(part, self._path)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError without an errno
            part.unlink(missing_ok=True)
            raise DiskFull(
                f"The checkpoint {self._path} could not be written ({error}); free some space and start again. "
                "The checkpoint before it is kept."
            ) from error


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
