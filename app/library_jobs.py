"""What the workers beside the model's are given to run: look through the library, get, bring in, verify, remove.

Knows nothing of threads or widgets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

from app.shelf import (
    FOR,
    Export,
    Exported,
    FileChoice,
    NotFitting,
    NotHolding,
    Offer,
    Shelf,
    Thing,
    Wanted,
    free_name,
    short,
)
from app.worker import Job, stoppable
from medusa_core.config import HubConfig, ModelConfig
from medusa_core.errors import CatalogueError, CheckpointError, DoesNotFit, FileNotChosen
from medusa_core.events import Progress
from medusa_core.hub import resources_folder
from medusa_core.hub.catalogue import Catalogue, heads_state, read_catalogue, trained_models
from medusa_core.hub.library import Installed, discard, installed, remove
from medusa_core.hub.suiting import heads_base, is_ours

HubSource = Callable[[], HubConfig]  # asked only when somebody wants something from the Hub


def heads_home(cache: Path) -> Path:
    """The folder of heads that were trained here."""
    return cache.parent / "heads"


def looking(cache: Path, config: ModelConfig, freed: int) -> Job:
    """The shelf as it is: at once what is there, then whether each model of the catalogue fits this machine."""

    def look() -> Generator[Shelf, None, Shelf]:
        from medusa_core.hub.download import unfinished

        catalogue = _catalogue()
        trained = heads_home(cache)
        things = [_thing(entry, cache) for entry in installed(cache)]
        things += [_thing(entry, trained, trained_here=True) for entry in installed(trained)]
        shipped, made = trained_models(resources_folder() / "heads"), trained_models(trained)
        offers = [Offer(each, heads_state(each, shipped=shipped, trained=made)) for each in catalogue.models]
        waiting = tuple(unfinished(cache))
        yield Shelf(tuple(things), waiting, tuple(offers))
        from medusa_core.hub.fitting import fitting_precision  # imports PyTorch

        fitting = tuple(
            Offer(
                each.entry,
                each.heads,
                fitting_precision(each.entry, config.dtype, config.device, config.context, freed),
            )
            for each in offers
        )
        return Shelf(tuple(things), waiting, fitting)

    return stoppable(look)


def getting(wanted: Wanted, cache: Path, hub: HubSource, config: ModelConfig, freed: int) -> Job:
    """Download; the value is the new folder, NotFitting, or FileChoice."""

    def get() -> Generator[Progress, None, Path | NotFitting | FileChoice]:
        from medusa_core.hub.client import HubClient
        from medusa_core.hub.download import download
        from medusa_core.hub.fitting import download_check

        check = (
            None if wanted.anyway else download_check(wanted.name, config.dtype, config.device, config.context, freed)
        )
        with closing(HubClient(hub())) as client:
            work = download(client, wanted.repo, cache, revision=wanted.revision, gguf=wanted.gguf, check=check)
            with closing(work):
                try:
                    return (yield from work)
                except DoesNotFit as error:
                    return NotFitting(wanted, str(error))
                except FileNotChosen as error:
                    return FileChoice(str(error), error.files)

    return stoppable(get)


def importing(source: Path, cache: Path) -> Job:
    """Copy a folder or a file of heads, or convert a GGUF file, into the library under a name that is free; the value
    is the new folder.
    """

    def bring() -> Generator[Progress, None, Path]:
        from medusa_core.hub.bring_in import import_model, import_name

        wanted = import_name(source)
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


def exporting(export: Export) -> Job:
    """Write heads for another program; the value is Exported, or NotHolding where something must be left out first."""

    def write() -> Generator[Progress, None, Exported | NotHolding]:
        yield Progress("Reading the heads", 0, 0)
        from medusa_core.heads.formats.convert import convert
        from medusa_core.heads.formats.model import open_model
        from medusa_core.heads.formats.read import read_any
        from medusa_core.heads.formats.write import DROPPABLE, obstacles

        entry = export.heads.entry
        if export.model is None and export.to != "tgi":
            base = export.heads.base or "the model they belong to"
            raise CheckpointError(f"{entry.name} can be written {FOR[export.to]} only beside {base}. Get it first.")
        found = obstacles(read_any(entry.folder), export.to) if export.to != "ours" else []
        if found and not (export.leave_out and all(each.drop for each in found)):
            lacking = f"Heads {FOR[export.to]} cannot have what these have: {'; '.join(each.what for each in found)}."
            if all(each.drop for each in found):
                return NotHolding(f"{lacking} They work without it, and guess a little worse.")
            raise CheckpointError(f"{lacking} Train heads of the paper’s own kind, which other programs can serve.")
        there = [path.name for path in export.into.iterdir()] if export.into.is_dir() else []
        folder = export.into / free_name(f"{short(entry.name)}-{export.to}", there)
        yield Progress("Writing the heads", 0, 0)
        model = open_model(export.model, export.heads.base) if export.model is not None else None
        done = convert(entry.folder, folder, export.to, model, DROPPABLE if export.leave_out else ())
        return Exported(folder, done.dropped)

    return stoppable(write)


def _thing(entry: Installed, library: Path, *, trained_here: bool = False) -> Thing:
    """One on this machine, with the model that heads are for as their files or the catalogue name it."""
    if entry.kind == "model":
        return Thing(entry, library, trained_here)
    base = heads_base(entry.folder, "" if trained_here else entry.name)
    return Thing(entry, library, trained_here, base, is_ours(entry.folder))


def _catalogue() -> Catalogue:
    try:
        return read_catalogue()
    except CatalogueError:
        return Catalogue((), {})  # what is on this machine is shown all the same
