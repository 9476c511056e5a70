"""One training, one or several processes: who writes, who waits, and in which precision all of them multiply.

`accelerate launch` says how many processes there are; without it there is one. Knows nothing of what is trained.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import torch

from medusa_core.config import Device, MixedPrecision

if TYPE_CHECKING:
    from accelerate import Accelerator

# The others wait while the first process lets the model write its replies, which takes hours.
_PATIENCE = timedelta(days=7)


def enter(device: Device) -> None:
    """Called before a model is loaded: each process of several takes a GPU of its own, where there are GPUs."""
    from accelerate.state import PartialState

    PartialState(cpu=device == "cpu", timeout=_PATIENCE)


def join(device: torch.device, mixed_precision: MixedPrecision) -> Accelerator:
    """This process's place among those that train together on this kind of device."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs

    if PartialState._shared_state != {}:
        # An earlier training of this process may have had another precision or device, which the library remembers.
        AcceleratorState._reset_state(reset_partial_state=not PartialState().use_distributed)
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision=precision(device, mixed_precision),
        kwargs_handlers=[
            # Buffers are frozen tensors of the model: as large as it is, and the same everywhere.
            DistributedDataParallelKwargs(broadcast_buffers=False),
            InitProcessGroupKwargs(timeout=_PATIENCE),
        ],
    )


def is_main() -> bool:
    """Whether this process is the one that writes and reports; True where there is only one."""
    from accelerate.state import PartialState

    return PartialState._shared_state == {} or bool(PartialState().is_main_process)


def precision(device: torch.device, mixed_precision: MixedPrecision) -> str:
    """`auto` is bf16 where the device has instructions for it, else no."""
    if mixed_precision != "auto":
        return mixed_precision
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        # Asked, not timed: a resumed training must come to the same answer on a busy machine.
        has = torch.cpu.get_capabilities()
        fast = any(has.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return "bf16" if fast else "no"
