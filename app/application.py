"""Build everything and connect it: the only place that sees all rooms.

Importing this module imports no numeric library; the first of them is loaded by the worker, after the window is on the
screen. Knows nothing of decoding.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QObject, Qt, QTimer, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app import theme as looks
from app.building import build_views
from app.calibration_controller import CalibrationController
from app.controller import Controller, Phase
from app.conversations import AlreadyOpen, ConversationStore, StoreError
from app.crash_log import CrashLog
from app.drop_controller import DropController
from app.find_controller import FindController
from app.garbage import GuiGarbage
from app.jobs import ChatModel, Opener
from app.json_file import JsonFile
from app.library_jobs import HubSource
from app.memory import in_words, resident_bytes
from app.models_controller import ModelsController
from app.option_table import BY_KEY
from app.panel_controller import PanelController
from app.screen import Views
from app.settings import Settings, load_settings, read_settings
from app.single_instance import Doorbell, address_of, ring
from app.smoke_test import Asking, Finding, Trial
from app.training_controller import TrainingController
from app.views.about import AboutDialog
from app.views.file_drops import FileDrops
from app.views.notices import Notice, Topic, Way
from app.wiring import connect_conversations, connect_find, connect_model, connect_models, connect_replies
from app.worker import Worker
from medusa_core.config import HubConfig, ModelConfig
from medusa_core.errors import ConfigError, DiskFull
from medusa_core.events import Progress

NAME = "medusa-chat"
VERSION = "0.1.0"
SETTINGS_FILE = "settings.json"
_MEMORY_EVERY_MS = 2000
_UNDO_SECONDS = 30 * 24 * 3600.0  # what was deleted stays in the file for so long
_TURN_SECONDS = 0.0005  # a thread that waits for Python's lock has it after so long: the model must not wait for paint
_PATIENCE_SECONDS = 8.0  # for a step, or for the import of the numeric libraries, to end


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line can say."""

    profile: Path | None = None  # keeps all data, models included
    smoke_test: bool = False
    screenshot: Path | None = None
    hub: HubSource = HubConfig  # asked when something is wanted from there


class Application(QObject):
    """The window and all behind it, connected."""

    def __init__(self, profile: Path, cache: Path, opener: Opener, hub: HubSource = HubConfig) -> None:
        """`hub`: asked when something is wanted from there. Raises AlreadyOpen where another process has the profile's
        conversations open."""
        super().__init__()
        sys.setswitchinterval(_TURN_SECONDS)
        self.store, trouble = _open_store(profile)
        self._garbage = GuiGarbage(self)
        self._themes = looks.load_themes()
        self._window_file = JsonFile(profile / "window.json")
        self._settings_file = JsonFile(profile / SETTINGS_FILE)
        settings, problem = load_settings(self._settings_file)
        self.theme = self._themes[_theme_name(settings["theme"])]
        self._font_size = _font_size(settings)
        looks.apply(_running(), self.theme, self._font_size)
        self.views = build_views(self.theme)
        self.window = self.views.window
        self.worker = Worker(self)
        self.controller = Controller(self.views, self.worker, opener, cache, self._settings_file, self.store)
        self.panel_controller = PanelController(self.views, self.controller, self.theme)
        self.find = FindController(self.views.chat)
        self.models = ModelsController(self.window, self.controller, cache, hub)
        self.drops = DropController(
            self.models, self.controller.conversations, self.panel_controller, self.views.notices
        )
        self.training = TrainingController(self.window, self.controller, self.store, cache.parent, self.theme)
        self.calibration = CalibrationController(self.views, self.controller, cache)
        self._closed_cleanly, self._settled = True, False
        self._doorbell = Doorbell(self)
        self._connect()
        if self.store.is_saved:
            self._doorbell.listen(address_of(profile))
        if trouble:
            self.views.notices.tell(Notice(Topic.CONVERSATIONS, trouble, is_error=self.store.kept_aside is None))
        self.controller.conversations.refresh()
        self.controller.use_settings(settings, problem)
        self.controller.settings_changed.connect(self.dress)
        self.controller.phase_changed.connect(self.settle)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self.dress)
        self._restore_window()
        self._memory_timer = QTimer(self)
        self._memory_timer.setInterval(_MEMORY_EVERY_MS)
        self._memory_timer.timeout.connect(self.show_memory)
        self._memory_timer.start()
        self.show_memory()

    def _connect(self) -> None:
        self.views.window.may_close = self.controller.saving.may_close
        self.views.window.closing.connect(self.close)
        self.views.window.about_requested.connect(self.show_about)
        self._doorbell.rung.connect(self.come_to_the_front)
        connect_model(self.views, self.controller)
        connect_replies(self.views, self.controller.replies)
        connect_conversations(self.views, self.controller.conversations)
        connect_find(self.views, self.find)
        FileDrops(self.window).dropped.connect(self.drops.take)
        connect_models(self.views, self.models, self.training, self.calibration)
        self.views.chat.recording_asked.connect(self.show_recording)

    def _restore_window(self) -> None:
        try:
            self.window.restore(self._window_file.read())
        except ConfigError:
            self.window.restore({})  # only where the window stood is lost

    def show(self) -> None:
        """Put the window on the screen; the model is loaded once it has painted."""
        self.window.show()
        self.views.composer.edit.setFocus()

    def dress(self) -> None:
        """Dress everything in the theme that the settings or the system ask for."""
        theme = self._themes[_theme_name(self.controller.settings["theme"])]
        size = _font_size(self.controller.settings)
        if (theme, size) == (self.theme, self._font_size):
            return
        self.theme, self._font_size = theme, size
        looks.apply(_running(), theme, size)
        views = self.views
        for view in (views.window, views.sidebar, views.chat, views.notices, views.panel, views.dialog):
            view.set_theme(theme)
        self.panel_controller.set_theme(theme)
        self.training.set_theme(theme)

    def show_memory(self) -> None:
        """Say in the status line what the app takes."""
        self.window.status_line.show_memory(in_words(resident_bytes()))

    def show_recording(self) -> None:
        """A reply that was recorded, for whoever has no model."""
        self.panel_controller.open_example(0)

    def show_about(self) -> None:
        """The page about the app."""
        dialog = AboutDialog(self.theme, VERSION, self.window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    def come_to_the_front(self) -> None:
        """Another start of the app on the same profile asks for this window."""
        self.window.setWindowState(self.window.windowState() & ~Qt.WindowState.WindowMinimized)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()
        QApplication.alert(self.window)  # where the desktop lets no window come forward by itself

    def watch(self, log: CrashLog) -> None:
        """Tell of the crash of an earlier start, and have this one's written down should it come to that."""
        if log.found is not None:
            text = (
                f"The app crashed the last time. {log.found.name} says what it was doing; nothing you wrote is in it, "
                "and your conversations are here as they were saved."
            )
            self.views.notices.tell(Notice(Topic.CRASH, text, log.read(), (Way.OPEN_FOLDER,), is_error=False))
        log.begin((f"Medusa Chat {VERSION}", f"Qt {qVersion()}"))

    def tell_unexpected(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception nobody caught: shown in the window instead of lost on a terminal."""
        details = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(details)
        self.views.notices.tell(Notice(Topic.UNEXPECTED, f"Something unexpected went wrong: {error}", details))

    def settle(self, phase: object) -> None:
        """A loaded model brings a million objects that stay: collecting garbage must not look through them again."""
        if phase is Phase.READY and not self._settled:
            self._garbage.settle()
        elif phase is Phase.LOADING and self._settled:
            self._garbage.loosen()
        self._settled = phase is Phase.READY or (self._settled and phase is not Phase.LOADING)

    def close(self) -> None:
        """Keep what is to be kept, stop the job and end its thread."""
        self.controller.save_settings()
        self.controller.conversations.close()
        self._doorbell.close()
        try:
            self._window_file.write(self.window.state())
        except OSError as error:
            sys.stderr.write(f"The window's place could not be saved: {error}\n")
        self.panel_controller.close()
        self.views.dialog.close()
        self.window.hide()  # the thread may need a moment; nobody has to watch
        asides = all([self.training.close(_PATIENCE_SECONDS), self.models.close(_PATIENCE_SECONDS)])
        self._closed_cleanly = self.worker.close(_PATIENCE_SECONDS) and asides
        if self._closed_cleanly:
            self._garbage.stop()

    @property
    def closed_cleanly(self) -> bool:
        """False where the worker's thread would not end in time."""
        return self._closed_cleanly


def run(options: Options) -> int:
    """Start the app; the exit status once its window is closed."""
    # Only where it is needed: a full disk must not keep the app from starting.
    with tempfile.TemporaryDirectory(prefix="medusa-smoke-") if options.smoke_test else nullcontext("") as fresh:
        profile, cache = _folders(options, Path(fresh))
        settings = read_settings(JsonFile(profile / SETTINGS_FILE))
        app = _qt_application(settings["scale"])
        cache = _chosen_cache(settings, profile, cache)
        trials: list[Callable[[Controller, Views], Trial]] = []
        if options.smoke_test:
            trials = [partial(Asking, screenshot=options.screenshot), Finding]
        status, cleanly = 0, True
        for make_trial in trials or [None]:
            try:
                application = Application(profile, cache, _open_chat, options.hub)
            except AlreadyOpen as error:
                return _send_to_first(error)
            sys.excepthook = application.tell_unexpected
            log = CrashLog(profile)
            application.watch(log)
            trial = make_trial(application.controller, application.views) if make_trial else None
            application.show()
            status = app.exec()
            gc.disable()  # a thread that is still ending must not collect what is left of the window
            if trial is not None:
                status = trial.status
                sys.stderr.write(f"{trial.message}\n" if trial.message else "")
            cleanly = cleanly and application.closed_cleanly
            log.end()
            if status:
                break
    if not cleanly:
        # A thread inside native code cannot be ended, and Qt aborts when it destroys a running one. All is saved.
        sys.stderr.flush()
        os._exit(status)
    return status


def _send_to_first(error: AlreadyOpen) -> int:
    """The first window comes to the front, and this process has nothing more to do."""
    if error.owner is not None and ring(error.owner.address):
        return 0
    sys.stderr.write(f"{error}\n")
    return 1


def _open_store(profile: Path) -> tuple[ConversationStore, str]:
    """The conversations, and one sentence where something is wrong with them, else "".

    Where they cannot be kept, they are in memory: what can be read is shown, and everything works until the end.
    """
    try:
        store = ConversationStore(profile, address_of(profile))
    except AlreadyOpen:
        raise
    except DiskFull:
        text = f"The disk of {profile} is full, so conversations are not saved. Make room, then start the app again."
        return ConversationStore(profile, in_memory=True), text
    except StoreError as error:
        return ConversationStore(profile, in_memory=True), str(error)
    with suppress(StoreError, DiskFull):
        store.purge(_UNDO_SECONDS)
    if store.kept_aside is None:
        return store, ""
    return store, (
        f"The file of the conversations was damaged. It was kept as {store.kept_aside}, and a new one was begun."
    )


def _qt_application(scale: int) -> QApplication:
    """Qt reads the scale (in percent) only once, and only from there; 100 leaves alone what is there already."""
    if scale != BY_KEY["scale"].default:
        os.environ["QT_SCALE_FACTOR"] = f"{scale / 100:g}"
    app = QApplication(sys.argv[:1])
    app.setApplicationName(NAME)
    app.setApplicationDisplayName("Medusa Chat")
    app.setApplicationVersion(VERSION)
    app.setDesktopFileName(NAME)
    return app


def _chosen_cache(settings: Settings, profile: Path, cache: Path) -> Path:
    """Where models are kept: in the data folder, where the person chose one."""
    from medusa_core.hub import default_cache

    folder = settings.data_folder(profile)
    return cache if folder == profile else default_cache(folder)


def _folders(options: Options, fresh: Path) -> tuple[Path, Path]:
    """The folder of this person's data, and the one of the models."""
    import platformdirs

    from medusa_core.hub import default_cache

    if options.profile is not None:
        profile = options.profile.expanduser().absolute()
        return profile, default_cache(profile)
    profile = fresh if options.smoke_test else Path(platformdirs.user_data_dir(NAME, appauthor=False))
    return profile, default_cache()


def _open_chat(config: ModelConfig, cache: Path) -> Generator[Progress, None, ChatModel]:
    from medusa_core.opening import open_chat  # in the worker's thread, once the window has painted

    return (yield from open_chat(config, cache))


def _theme_name(choice: str) -> str:
    return looks.system_theme() if choice == "system" else choice


def _font_size(settings: Settings) -> int:
    """In px; 0: as the system."""
    size: int = settings["font_size"]
    return 0 if size == BY_KEY["font_size"].default else size


def _running() -> QApplication:
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        raise TypeError("a QApplication must exist before the window is built")
    return app
