"""Whether models that are not loaded yet fit this machine: entries of the catalogue, and what a download would bring.

The only room of the hub that needs PyTorch, which it imports when it is asked. Knows nothing of connections.
"""

from __future__ import annotations

from pathlib import Path

from medusa_core import fit
from medusa_core.config import Device, Dtype
from medusa_core.errors import DoesNotFit
from medusa_core.hub.catalogue import CatalogueEntry
from medusa_core.hub.download import Check
from medusa_core.hub.gguf import check_memory
from medusa_core.hub.listing import Listing, is_weights

_BYTES, _GGUF_BYTES = 2.0, 0.56  # of a weight in a file, as a rule


def fitting_precision(entry: CatalogueEntry, dtype: Dtype, device: Device, context: int, freed: int = 0) -> str:
    """The precision that an entry of the catalogue fits this machine in; "" where it does not.

    `context`: tokens of conversation to make room for, 0 for as many as usual. `freed`: bytes that the model in use
    will give back.
    """
    try:
        return _best(entry.name, entry.sizes, dtype, device, context, freed).need.precision
    except DoesNotFit:
        return ""


def download_check(name: str, dtype: Dtype, device: Device, context: int, freed: int = 0) -> Check:
    """For `download`: refuses by DoesNotFit, before any weights come, what this machine has no memory for; and by
    OutOfMemory what it has no memory to convert."""

    def check(listing: Listing, config: Path) -> None:
        if listing.kind == "heads":
            return
        size = sum(file.size for file in listing.files if is_weights(file.name))
        parameters = listing.parameters or int(size / (_GGUF_BYTES if listing.kind == "gguf" else _BYTES))
        if listing.kind == "gguf":
            check_memory(name, parameters)  # it is converted in memory, also where it will run on a GPU
        _best(name, fit.config_sizes(config, parameters), dtype, device, context, freed)

    return check


def _best(name: str, sizes: fit.ModelSizes, dtype: Dtype, device: Device, context: int, freed: int) -> fit.Fit:
    from medusa_core.backbone.precision import choose_device, fitting_precisions

    place = choose_device(device)
    return fit.best_fit(
        name,
        sizes,
        fitting_precisions(dtype, place),
        place.type,
        context=fit.chosen_context(sizes, context),
        others=("nf4",),
        freed=freed,
    )
