"""The model manager: what a person wants done with models and heads, and what becomes of it.

Downloads and everything else on the disk run on workers of their own, so that chatting goes on meanwhile; nothing goes
to the network unless it was asked for. Knows nothing of widgets' insides, of connections or of how models are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.controller import Controller, Phase
from app.library_jobs import HubSource, checking, discarding, exporting, getting, importing, looking, removing
from app.library_words import SEPARATOR, check_words, exported_words, progress_words
from app.shelf import Export, Exported, FileChoice, NotFitting, NotHolding, Shelf, Thing, Wanted, size_words
from app.task_queue import TaskQueue
from app.views.model_manager import ModelManager
from app.views.transfers import State, Transfer
from app.worker import STOPPED, Failure, Job
from medusa_core.errors import MedusaError
from medusa_core.events import Progress
from medusa_core.fit import held_bytes
from medusa_core.hub import DEFAULT
from medusa_core.hub.address import read_address
from medusa_core.hub.check import CheckReport

_LOOK = "look"
_PAUSING = f"pausing{SEPARATOR}"


class ModelsController(QObject):
    """One method per intent, and one per report of the two workers."""

    training_asked = Signal()  # heads for the loaded model

    def __init__(self, window: QWidget, controller: Controller, cache: Path, hub: HubSource) -> None:
        super().__init__()
        self._window, self._controller, self._cache, self._hub = window, controller, cache, hub
        self.manager: ModelManager | None = None
        self.shelf = Shelf()
        self.transfers: dict[str, Transfer] = {}
        self._wanted: dict[str, Wanted] = {}  # by key of their transfers
        self._exports: dict[str, Export] = {}
        self._cancelled: set[str] = set()
        self._checks: dict[str, str] = {}
        self.downloads, self.library = TaskQueue(self), TaskQueue(self)
        for queue in (self.downloads, self.library):
            queue.began.connect(self._take_start)
            queue.told.connect(self._take_report)
            queue.ended.connect(self._take_end)
        controller.phase_changed.connect(self._take_phase)

    def open(self) -> None:
        """Show the manager, and look through the folder of models."""
        if self.manager is None:
            self.manager = ModelManager(self._window)
            self._connect(self.manager)
        self.look()
        self._show()
        self.manager.show()
        self.manager.raise_()
        self.manager.activateWindow()

    def _connect(self, manager: ModelManager) -> None:
        manager.use_asked.connect(self.use)
        manager.removal_asked.connect(self.remove)
        manager.check_asked.connect(self.check)
        manager.reveal_asked.connect(self.reveal)
        manager.get_asked.connect(self.get)
        manager.named_asked.connect(self.get_named)
        manager.import_asked.connect(self.bring_in)
        manager.export_asked.connect(self.export)
        manager.training_asked.connect(self.training_asked)
        manager.transfers.pause_asked.connect(self.pause)
        manager.transfers.resume_asked.connect(self.resume)
        manager.transfers.cancel_asked.connect(self.cancel)
        manager.transfers.anyway_asked.connect(self.go_on_anyway)
        manager.transfers.chosen.connect(self.choose)

    def close(self, seconds: float) -> bool:
        """The app ends: downloads are paused; False where a worker does not end in time."""
        if self.manager is not None:
            self.manager.close()
        ended = [queue.close(seconds) for queue in (self.downloads, self.library)]
        return all(ended)

    # Intents, of things on this machine

    def look(self) -> None:
        """See what is there now."""
        self.library.add(_LOOK, looking(self._cache, self._controller.settings.model(), self._held()))

    def use(self, key: str) -> None:
        """Load a model with heads that suit it; or heads, and the model they are for where that is here."""
        thing = self.shelf.thing(key)
        if thing is None:
            return
        model: Thing | None
        if thing.entry.kind == "model":
            model, heads = thing, DEFAULT
        else:
            model, heads = self.shelf.model(thing.base) if thing.base else None, thing.setting
        if model is not None:
            self._controller.change_setting("model", model.setting)
        self._controller.change_setting("heads", heads)
        self._controller.load()

    def remove(self, key: str) -> None:
        """Delete it from the disk; what is in use stays."""
        thing = self.shelf.thing(key)
        if thing is not None and key not in self._uses():
            self._run_aside(f"remove:{key}", thing.entry.name, removing(thing))

    def check(self, key: str) -> None:
        """Compare its files with what arrived."""
        thing = self.shelf.thing(key)
        if thing is not None:
            self._checks.pop(key, None)
            self._run_aside(f"check:{key}", thing.entry.name, checking(thing))

    def reveal(self, key: str) -> None:
        """Show its folder in the system's file manager."""
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(key)):
            self._checks[key] = f"No program opens folders here. It is {key}"
            self._show()

    def export(self, key: str, to: str, into: Path) -> None:
        """Write heads for another program into a new folder of `into`."""
        thing = self.shelf.thing(key)
        if thing is not None:
            self._export(Export(thing, to, into, self._model_of(thing)))

    def _export(self, export: Export) -> None:
        key = f"export:{export.to}:{export.into}:{export.heads.key}"
        self._exports[key] = export
        self._run_aside(key, export.words, exporting(export))

    def _model_of(self, heads: Thing) -> Path | None:
        """The folder of the model that heads belong to: in the library, or wherever the loaded one is."""
        if (model := self.shelf.model(heads.base)) is not None:
            return model.entry.folder
        loaded = self._controller.loaded_as
        folder = Path(loaded.model).expanduser() if loaded is not None else None
        return folder if folder is not None and folder.is_dir() and folder.resolve().name == heads.base else None

    # Intents, of things that are to come

    def get(self, wanted: Wanted) -> None:
        """Download it, after those that were asked for before."""
        key = f"get:{wanted.name}"
        if self.downloads.has(key):
            return
        self._wanted[key] = wanted
        self._cancelled.discard(key)
        self._set(Transfer(key, wanted.name, State.WAITING, "waits for the download before it", can_pause=True))
        config = self._controller.settings.model()
        self.downloads.add(key, getting(wanted, self._cache, self._hub, config, self._held()))

    def get_named(self, text: str, gguf: str) -> None:
        """Download what a person named: ORG/NAME, ORG/NAME@REVISION, or the address of a page on the Hub."""
        try:
            address = read_address(text, self._hub().endpoint)
        except MedusaError as error:
            self._set(Transfer(f"get:{text}", text, State.FAILED, str(error)))
            return
        self.get(Wanted(address.repo, gguf or address.file, address.revision))

    def go_on_anyway(self, key: str) -> None:
        """Download what does not fit this machine; write heads without what the other format cannot hold."""
        if key in self._wanted:
            self.get(replace(self._wanted[key], anyway=True))
        elif key in self._exports:
            self._export(replace(self._exports[key], leave_out=True))

    def choose(self, key: str, gguf: str) -> None:
        """Of a repository that was asked for as a whole, download this file."""
        if (wanted := self._wanted.pop(key, None)) is not None:
            self.transfers.pop(key)
            self.get(replace(wanted, gguf=gguf))

    def bring_in(self, sources: Sequence[Path]) -> None:
        """Copy folders, and convert GGUF files, into the library."""
        for source in sources:
            self._run_aside(f"import:{source}", source.name, importing(source, self._cache))

    def pause(self, key: str) -> None:
        """Stop a download; what came stays. A connection that says nothing takes a while to be left."""
        if self.downloads.running == key:
            text = f"{_PAUSING}{self.transfers[key].text}"
            self._set(replace(self.transfers[key], text=text, can_pause=False))
        self.downloads.stop(key)

    def resume(self, key: str) -> None:
        """Go on with a download."""
        if key in self._wanted:
            self.get(self._wanted[key])

    def cancel(self, key: str) -> None:
        """Stop it and forget what came of it; of what is over already, only the row goes."""
        self._cancelled.add(key)
        if self.downloads.has(key):
            self.downloads.stop(key)
        elif self.library.has(key):
            self.library.stop(key)
        else:
            self._forget(key)

    # Reports

    def _take_start(self, key: str) -> None:
        if key in self.transfers:
            self._set(replace(self.transfers[key], state=State.RUNNING, text="", share=None))

    def _take_report(self, key: str, event: object) -> None:
        if isinstance(event, Shelf):
            self._take_shelf(event)
        elif isinstance(event, Progress) and key in self.transfers:
            share = event.done / event.total if event.total else None
            self._set(replace(self.transfers[key], text=progress_words(event), share=share))

    def _take_end(self, key: str, result: object) -> None:
        if isinstance(result, Shelf):
            self._take_shelf(result)
            return
        if key not in self.transfers:
            if key.startswith("discard:"):
                self.look()
            return
        self.transfers[key] = replace(self.transfers[key], can_pause=key in self._wanted)  # again
        if isinstance(result, Failure):
            self._set(replace(self.transfers[key], state=State.FAILED, text=result.message))
        elif isinstance(result, NotFitting):
            self._set(replace(self.transfers[key], state=State.REFUSED, text=result.message))
        elif isinstance(result, FileChoice):
            choices = tuple((name, f"{name}{SEPARATOR}{size_words(size)}") for name, size in result.files.items())
            text = "This comes in GGUF files: choose the one to get."
            self._set(replace(self.transfers[key], state=State.REFUSED, text=text, choices=choices))
        elif isinstance(result, NotHolding):
            self._set(replace(self.transfers[key], state=State.REFUSED, text=result.message, anyway="Write without it"))
        elif result is STOPPED:
            self._take_stop(key)
        else:
            self._take_success(key, result)
        self.look()

    def _take_stop(self, key: str) -> None:
        if key in self._cancelled or key not in self._wanted:
            self._forget(key)
        else:
            text = self.transfers[key].text.removeprefix(_PAUSING) or "nothing yet"
            self._set(replace(self.transfers[key], state=State.PAUSED, text=f"paused{SEPARATOR}{text}"))

    def _take_success(self, key: str, result: object) -> None:
        if isinstance(result, CheckReport):
            self.transfers.pop(key)
            self._checks[key.removeprefix("check:")] = check_words(result)
            self._show()
            return
        said = f"Removed; {size_words(result)} free again." if isinstance(result, int) else "On this computer now."
        if isinstance(result, Exported):
            said = exported_words(result)
        self._wanted.pop(key, None)
        self._set(replace(self.transfers[key], state=State.DONE, text=said))

    def _take_shelf(self, shelf: Shelf) -> None:
        """A new look; whether models fit is kept from the one before until it is worked out again."""
        known = {offer.entry.model: offer.fits for offer in self.shelf.offers}
        offers = [
            replace(offer, fits=known.get(offer.entry.model)) if offer.fits is None else offer for offer in shelf.offers
        ]
        self.shelf = replace(shelf, offers=tuple(offers))
        for broken in shelf.unfinished:
            key = f"get:{broken.name}"
            if key not in self.transfers and not self.library.has(f"discard:{broken.name}"):
                self._wanted[key] = Wanted(broken.repo, broken.gguf, broken.revision)
                text = f"paused{SEPARATOR}{size_words(broken.done)} of {size_words(broken.total)}"
                share = broken.done / broken.total if broken.total else None
                self.transfers[key] = Transfer(key, broken.name, State.PAUSED, text, share, can_pause=True)
        self._show()

    def _take_phase(self, _phase: object) -> None:
        self._show()

    # What the manager shows

    def _run_aside(self, key: str, name: str, job: Job) -> None:
        if not self.library.has(key):
            self._set(Transfer(key, name, State.WAITING, "waits"))
            self.library.add(key, job)

    def _set(self, transfer: Transfer) -> None:
        before = self.transfers.get(transfer.key)
        self.transfers[transfer.key] = transfer
        if self.manager is not None:
            self.manager.transfers.show_transfers(list(self.transfers.values()))
            if before is None or before.state is not transfer.state:
                self._show()

    def _forget(self, key: str) -> None:
        transfer = self.transfers.pop(key)
        if self._wanted.pop(key, None) is not None and transfer.state is not State.DONE:
            self.library.add(f"discard:{transfer.name}", discarding(self._cache, transfer.name))
        self._show()

    def _show(self) -> None:
        if self.manager is None:
            return
        self.manager.transfers.show_transfers(list(self.transfers.values()))
        over = (State.DONE, State.REFUSED)
        underway = {self._wanted[key].repo for key in self._wanted if self.transfers[key].state not in over}
        self.manager.show_shelf(self.shelf, self._uses(), self._checks, underway)

    def _held(self) -> int:
        """Bytes of the loaded model, which come free when another takes its place."""
        model = self._controller.model
        if model is None:
            return 0
        info = model.info
        return held_bytes(info.parameters, info.dtype, "cuda" if info.device.startswith("cuda") else "cpu")

    def _uses(self) -> dict[str, str]:
        """By key: the model and heads that are loaded, or being loaded."""
        config = self._controller.loaded_as
        if config is None:
            return {}
        words = "being loaded" if self._controller.phase is Phase.LOADING else "in use"
        model = self._controller.model  # which knows what "default" came to
        named = {"model": config.model, "heads": config.heads if model is None else model.info.heads_name}
        return {thing.key: words for thing in self.shelf.things if _means(named[thing.entry.kind], thing)}


def _means(setting: str, thing: Thing) -> bool:
    """Whether a setting names this thing."""
    return setting in (thing.setting, thing.entry.name) or Path(setting).expanduser() == thing.entry.folder
