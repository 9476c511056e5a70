"""What the workers beside the model's are given to run: look through the library, get, bring in, verify, remove.

Knows nothing of threads or widgets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from app.shelf import NotFitting, Offer, Shelf, Thing, Wanted, free_name, short
from app.worker import Job, stoppable
from medusa_core.config import HubConfig, ModelConfig
from medusa_core.errors import CatalogueError, DoesNotFit, MedusaError
from medusa_core.events import Progress
from medusa_core.hub import resources_folder
from medusa_core.hub.catalogue import Catalogue, heads_state, read_catalogue, trained_models
from medusa_core.hub.library import discard, installed, remove

HubSource = Callable[[], HubConfig]  # asked only when somebody wants something from the Hub


def heads_home(cache: Path) -> Path:
    """The folder of heads that were trained here."""
    return cache.parent / "heads"


def looking(cache: Path, config: ModelConfig) -> Job:
    """The shelf as it is: at once what is there, then whether each model of the catalogue fits this machine."""

    def look() -> Generator[Shelf, None, Shelf]:
        from medusa_core.hub.download import unfinished

        catalogue = _catalogue()
        trained = heads_home(cache)
        things = [Thing(entry, cache, base=_base(entry.folder, entry.name, catalogue)) for entry in installed(cache)]
        things += [Thing(entry, trained, True, _base(entry.folder, "", catalogue)) for entry in installed(trained)]
        shipped, made = trained_models(resources_folder() / "heads"), trained_models(trained)
        offers = [Offer(each, heads_state(each, shipped=shipped, trained=made)) for each in catalogue.models]
        waiting = tuple(unfinished(cache))
        yield Shelf(tuple(things), waiting, tuple(offers))
        from medusa_core.hub.fitting import fitting_precision  # imports PyTorch

        fitting = tuple(
            Offer(each.entry, each.heads, fitting_precision(each.entry, config.dtype, config.device, config.context))
            for each in offers
        )
        return Shelf(tuple(things), waiting, fitting)

    return stoppable(look)


def getting(wanted: Wanted, cache: Path, hub: HubSource, config: ModelConfig) -> Job:
    """Download; the value is the new folder, or NotFitting."""

    def get() -> Generator[Progress, None, Path | NotFitting]:
        from medusa_core.hub.client import HubClient
        from medusa_core.hub.download import download
        from medusa_core.hub.fitting import download_check

        check = None if wanted.anyway else download_check(wanted.name, config.dtype, config.device, config.context)
        with closing(HubClient(hub())) as client:
            work = download(client, wanted.repo, cache, revision=wanted.revision, gguf=wanted.gguf, check=check)
            with closing(work):
                try:
                    return (yield from work)
                except DoesNotFit as error:
                    return NotFitting(wanted, str(error))

    return stoppable(get)


def importing(source: Path, cache: Path) -> Job:
    """Copy a folder or convert a GGUF file into the library, under a name that is free; the value is the folder."""

    def bring() -> Generator[Progress, None, Path]:
        from medusa_core.hub.bring_in import import_model

        wanted = source.stem if source.is_file() else source.resolve().name
        there = [path.name for path in cache.iterdir()] if cache.is_dir() else []
        return (yield from import_model(source, cache, free_name(wanted, there)))

    return stoppable(bring)


def checking(thing: Thing) -> Job:
    """Compare every file with what arrived; the value is the CheckReport."""

    def verify() -> Generator[Progress, None, object]:
        from medusa_core.hub.check import check

        return (yield from check(thing.entry))

    return stoppable(verify)


def removing(thing: Thing) -> Job:
    """Take something off the disk; the value is the bytes that became free."""

    def take() -> Generator[Progress, None, int]:
        yield Progress(f"Removing {thing.entry.name}", 0, 0)
        return remove(thing.library, thing.entry.name)

    return stoppable(take)


def discarding(cache: Path, name: str) -> Job:
    """Remove what an unfinished download left; the value is the bytes that became free."""

    def drop() -> Generator[Progress, None, int]:
        yield Progress(f"Discarding {name}", 0, 0)
        return discard(cache, name)

    return stoppable(drop)


def _catalogue() -> Catalogue:
    try:
        return read_catalogue()
    except CatalogueError:
        return Catalogue((), {})  # what is on this machine is shown all the same


def _base(folder: Path, name: str, catalogue: Catalogue) -> str:
    """The model that heads are for, without its maker; "" where nothing says it."""
    try:
        config: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if found := config.get("base_model", {}).get("name"):
            return str(found)
    except (OSError, ValueError, AttributeError, MedusaError):
        pass
    for entry in catalogue.models:
        if any(heads.repo == name for heads in entry.heads):
            return short(entry.name)
    return ""
