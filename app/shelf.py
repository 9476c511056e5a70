"""What is on the shelf: models and heads on this machine, and those that can be had; and the words for each.

Plain data, made by `library_jobs.py`. Knows nothing of widgets, of the disk, or of connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app.memory import in_words
from medusa_core.hub import DEFAULT, DEFAULT_MODEL_NAME
from medusa_core.hub.catalogue import CatalogueEntry, HeadsState
from medusa_core.hub.download import Unfinished, library_name
from medusa_core.hub.library import Installed

_MEGABYTE = 1_000_000
FOR = {"vllm": "for vLLM", "tgi": "for TGI or LoRAX", "ours": "in this app’s format"}


@dataclass(frozen=True, slots=True)
class Thing:
    """A model, or heads, on this machine."""

    entry: Installed
    library: Path  # the folder of models, or that of heads that were trained here
    trained_here: bool = False
    base: str = ""  # of heads: the name of the model they are for; "" where nothing says it
    ours: bool = True  # of heads: in this program's own format

    @property
    def key(self) -> str:
        """What tells it from every other."""
        return str(self.entry.folder)

    @property
    def setting(self) -> str:
        """What the settings call it."""
        if self.trained_here:
            return str(self.entry.folder)
        is_default = self.entry.kind == "model" and self.entry.name == DEFAULT_MODEL_NAME
        return DEFAULT if is_default else self.entry.name


@dataclass(frozen=True, slots=True)
class Offer:
    """A model of the catalogue."""

    entry: CatalogueEntry
    heads: HeadsState
    fits: str | None = None  # the precision it fits this machine in; "": it does not; None: not worked out yet


@dataclass(frozen=True, slots=True)
class Shelf:
    """All of it."""

    things: tuple[Thing, ...] = ()
    unfinished: tuple[Unfinished, ...] = ()
    offers: tuple[Offer, ...] = ()

    def thing(self, key: str) -> Thing | None:
        """One of the things."""
        return next((thing for thing in self.things if thing.key == key), None)

    def model(self, name: str) -> Thing | None:
        """A model on this machine by its name, with its maker or without."""
        models = [thing for thing in self.things if thing.entry.kind == "model"]
        return next((thing for thing in models if name in (thing.entry.name, short(thing.entry.name))), None)

    def has(self, name: str) -> bool:
        """Whether the library has something of exactly this name."""
        return any(thing.entry.name == name and not thing.trained_here for thing in self.things)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Something to get from the Hub."""

    repo: str
    gguf: str = ""
    revision: str = "main"
    anyway: bool = False  # also where it does not fit into memory

    @property
    def name(self) -> str:
        """As the library will call it."""
        return library_name(self.repo, self.gguf)


@dataclass(frozen=True, slots=True)
class Export:
    """Heads to write for another program, into a new folder of `into`."""

    heads: Thing
    to: str  # "ours", "tgi" or "vllm"
    into: Path
    model: Path | None  # the folder of the model they belong to, where it is here
    leave_out: bool = False  # what the format cannot hold and can do without

    @property
    def words(self) -> str:
        """What it is, for the list."""
        return f"{self.heads.entry.name} {FOR[self.to]}"


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written where."""

    folder: Path
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotHolding:
    """It was not written, since the format cannot hold all of it; what it lacks can be left out."""

    message: str


@dataclass(frozen=True, slots=True)
class FileChoice:
    """It was not downloaded yet, since one of several files must be chosen; `files`: their sizes by name."""

    message: str
    files: dict[str, int]


@dataclass(frozen=True, slots=True)
class NotFitting:
    """It was not downloaded, since this machine has no memory for it."""

    wanted: Wanted
    message: str


def short(name: str) -> str:
    """A model's name without its maker."""
    return name.rpartition("/")[2]


def thing_facts(thing: Thing) -> str:
    """Kind, size, precision, licence, last use."""
    entry = thing.entry
    kind: str = entry.kind
    if kind == "heads":
        kind = "heads, trained here" if thing.trained_here else "heads"
        kind = f"{kind}, for {thing.base}" if thing.base else kind
    licence = entry.licence or ("" if thing.trained_here else "licence unknown")
    parts = [kind[:1].upper() + kind[1:], size_words(entry.size), entry.dtype, licence, used_words(entry.last_used)]
    return "  ·  ".join(filter(None, parts))


def size_words(size: int) -> str:
    """Room on the disk."""
    return in_words(size) if size >= _MEGABYTE else "less than 1 MB"


def used_words(used: datetime | None) -> str:
    """When something was last used."""
    if used is None:
        return "not used yet"
    day, today = used.astimezone().date(), datetime.now().astimezone().date()
    if day == today:
        return "last used today"
    return f"last used {day.day} {day:%b %Y}"


def offer_facts(offer: Offer) -> str:
    """Download, licence, whether it fits, its heads."""
    entry = offer.entry
    fits = {None: "", "": "does not fit this machine"}.get(offer.fits, f"fits this machine in {offer.fits}")
    size = f"{size_words(entry.size)} to download" if entry.size else "Comes with the app"
    licence = f"{entry.licence}, its makers ask to agree to terms" if entry.gated else entry.licence
    return "  ·  ".join(filter(None, (size, licence, fits, f"heads: {offer.heads}")))


def free_name(wanted: str, taken: Sequence[str]) -> str:
    """A name for an import that the library takes: letters, digits, . _ -, and not there yet."""
    kept = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in wanted)
    while ".." in kept:
        kept = kept.replace("..", ".")
    name = kept.strip("-._") or "model"
    number = 1
    while (found := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return found
