"""Make the pictures in docs/: the real window over the shipped recordings, and the default model where it must compute.

    python packaging/screenshots.py [NAME ...]     all of them, or those named
    python packaging/screenshots.py --list

Every picture begins with the same profile, so that only what changed in the app changes in it. Knows nothing of how
the window is built.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palette_png import save
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget

from app import recordings
from app.application import Application, _open_chat
from app.controller import Phase
from app.conversations import ConversationStore, Figures, MessageState
from app.recordings import Recording
from app.views.chart_pages import EXPECT, PROVE, STEPS
from app.views.tree import TreeView
from medusa_core.config import DecodingConfig
from medusa_core.events import Event, Progress
from medusa_core.hub import default_cache
from medusa_core.model_info import ChatMessage
from medusa_core.testing import ReplayChat

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 250_000
_SETTLE_MS = 500
_DAY = 86_400.0
_STORY, _CODE = 0, 1  # of the shipped recordings
# What stood in the list before, newest first: its age in days, the question, the reply.
_EARLIER = (
    (0.02, "Why is the sky blue?", "Air scatters blue light more than red light, so blue reaches us from everywhere."),
    (0.1, "Plan a rainy weekend", "1. Bake bread.\n2. Visit the museum of *ships*.\n3. Read by the window."),
    (1.1, "What does δ do in typical acceptance?", "It scales exp(−H): the higher, the surer a guess must be."),
    (1.3, "Translate “good morning” into Italian", "*Buongiorno.*"),
    (4.0, "Ideas for a birthday gift for my sister", "A map of the stars on the night she was born."),
    (6.0, "A haiku about lighthouses", "One lamp on the rock –\nthe ships it has never met\nthank it and sail on."),
    (15.0, "Names for a grey cat", "Ash, Pebble, Mist, Graphite."),
    (21.0, "How do tides work?", "The Moon pulls the near side of the sea more than the far side."),
)
_PINNED = "What does δ do in typical acceptance?"

Script = Generator[Callable[[], bool], None, QWidget]


@dataclass(frozen=True)
class Shot:
    """One picture: what is done before it, and how the app is started for it."""

    script: Callable[[Application], Script]
    theme: str = "light"
    scale: str = "1"
    size: tuple[int, int] = (1280, 820)
    acceptance: str = "sampling"
    real: bool = False  # with the default model
    dtype: str = "auto"


class Recorded(ReplayChat):
    """Answers each question with the recording whose question it is."""

    def __init__(self, shipped: list[Recording]) -> None:
        super().__init__(shipped[0].events, info=replace(shipped[0].info, heads_note=""))
        self._shipped = shipped

    def reply(
        self,
        messages: Any,
        config: DecodingConfig,
        stop: Callable[[], bool] = lambda: False,
        written: Any = (),
    ) -> Iterator[Event]:
        """The recorded reply to the last question."""
        asked: list[ChatMessage] = list(messages)
        self.events = next(each.events for each in self._shipped if each.question == asked[-1]["content"])
        return super().reply(asked, config, stop, written)


def ask(app: Application, question: str) -> Generator[Callable[[], bool], None, None]:
    """Ask, and wait for the end of the reply."""
    app.controller.send(question)
    yield lambda: app.controller.phase is Phase.READY
    yield after(_SETTLE_MS)


def after(milliseconds: int) -> Callable[[], bool]:
    """True once so much time has passed."""
    until = time.monotonic() + milliseconds / 1000
    return lambda: time.monotonic() >= until


def live(app: Application) -> Script:
    """The window while a reply is written, at a step with many guesses."""
    steps = SHIPPED[_STORY].steps
    wanted = max(range(60, len(steps)), key=lambda n: (len(steps[n].path) > 2, len(steps[n].nodes), n))
    model: Any = app.controller.model
    model.seconds_per_step = 0.04
    app.controller.send(SHIPPED[_STORY].question)
    yield lambda: len(app.views.panel.steps) > wanted
    app.views.panel.show_step(wanted)
    app.views.panel.go_live()
    return app.window


def story(app: Application) -> Script:
    """The window after a reply."""
    yield from ask(app, SHIPPED[_STORY].question)
    return app.window


def code(app: Application) -> Script:
    """A reply with code, its steps in charts."""
    yield from ask(app, SHIPPED[_CODE].question)
    app.views.panel.pages.show_page(STEPS)
    yield after(_SETTLE_MS)
    return app.window


def held(app: Application) -> Script:
    """A step in the middle of a reply, a refused guess pointed at."""
    yield from ask(app, SHIPPED[_CODE].question)
    panel = app.views.panel
    steps = panel.steps
    best = max(range(5, len(steps)), key=lambda n: (min(len(steps[n].path), 4), len(steps[n].nodes), -n))
    panel.show_step(best)
    refused = [n for n, node in enumerate(steps[best].nodes) if node.state.value == "rejected" and node.verdict]
    tree: Any = panel.findChild(TreeView)
    tree.setFocus()
    for _ in steps[best].nodes:  # the keys walk from node to node
        if tree.pointed in refused:
            break
        QApplication.sendEvent(tree, QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Down, Qt.KeyboardModifier.NoModifier))
    yield after(_SETTLE_MS)
    return app.window


def expectation(app: Application) -> Script:
    """The closed forms with sliders, beside what was measured."""
    yield from ask(app, SHIPPED[_STORY].question)
    app.views.panel.pages.show_page(EXPECT)
    app.views.panel.pages.expectation.take_conversation()
    yield after(_SETTLE_MS)
    return app.window


def settings(app: Application) -> Script:
    """The page of the acceptance rules."""
    app.controller.open_settings()
    app.views.dialog.resize(760, 1150)  # all of the page, the plot included
    yield after(_SETTLE_MS)
    return app.views.dialog


def search(app: Application) -> Script:
    """The list while something is looked for."""
    yield from ask(app, SHIPPED[_STORY].question)
    app.window.search_action.trigger()
    app.views.sidebar.search.setText("lighthouse")
    yield after(2 * _SETTLE_MS)
    return app.window


def proof(app: Application) -> Script:
    """The same reply with and without drafting, both just computed."""
    yield from ask(app, SHIPPED[_CODE].question)
    pages = app.views.panel.pages
    pages.show_page(PROVE)
    pages.proof.prove_asked.emit()
    yield lambda: app.controller.phase is Phase.READY
    yield after(_SETTLE_MS)
    return app.window


SHIPPED = [recordings.load(path) for path in recordings.examples()]
SHOTS = {
    "window": Shot(live),
    "dark": Shot(code, theme="dark", acceptance="greedy"),
    "large": Shot(story, scale="2", size=(1000, 780)),
    "held-step": Shot(held, acceptance="greedy"),
    "settings": Shot(settings, acceptance="typical"),
    "what-to-expect": Shot(expectation),
    "prove-it": Shot(proof, acceptance="greedy", real=True),
    "conversations": Shot(search),
}


class Photographer(QObject):
    """Runs a script in the window, then saves what it says."""

    def __init__(self, app: Application, shot: Shot, path: Path) -> None:
        super().__init__()
        self._app, self._path = app, path
        self._script = shot.script(app)
        self._ready: Callable[[], bool] = lambda: app.controller.phase is Phase.READY
        self.size = 0
        self._timer = QTimer(self)
        self._timer.setInterval(30)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def _go_on(self) -> None:
        if not self._ready():
            return
        try:
            self._ready = next(self._script)
        except StopIteration as end:
            self._timer.stop()
            save(end.value.grab().toImage(), self._path)
            self.size = self._path.stat().st_size
            self._app.window.close()


def fill(profile: Path) -> None:
    """Conversations from before."""
    clock = [0.0]
    store = ConversationStore(profile, now=lambda: clock[0])
    for age, question, answer in reversed(_EARLIER):
        clock[0] = time.time() - age * _DAY
        asked = store.messages.ask(question)
        figures = Figures(SHIPPED[_STORY].info.name, "exact sampling", 7, 24, 61.0, 1.8, 0.06, "stop")
        writer = store.messages.begin_reply(asked.id, figures)
        writer.append(answer)
        writer.finish(MessageState.COMPLETE)
        if question == _PINNED:
            store.pin(asked.conversation, pinned=True)
    store.close()


def take(name: str, folder: Path) -> int:
    """Make one picture; its size in bytes, 0 where it was not made."""
    shot = SHOTS[name]
    recorded = Recorded(SHIPPED)

    def opener(*_: Any) -> Generator[Progress, None, ReplayChat]:
        yield Progress("Reading the recordings", 0, 0)
        return recorded

    with tempfile.TemporaryDirectory(prefix="medusa-pictures-") as temporary:
        profile = Path(temporary)
        chosen = {"theme": shot.theme, "acceptance": shot.acceptance, "seed": 2, "dtype": shot.dtype}
        (profile / "settings.json").write_text(json.dumps(chosen), encoding="utf-8")
        fill(profile)
        app = Application(profile, default_cache(), _open_chat if shot.real else opener)
        app.window.resize(*shot.size)
        photographer = Photographer(app, shot, folder / f"{name}.png")
        app.show()
        QApplication.exec()
        return photographer.size


def main() -> int:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SHOTS)}")
    parse.add_argument("--out", type=Path, default=ROOT / "docs", metavar="DIR")
    given = parse.parse_args()
    if unknown := set(given.names) - SHOTS.keys():
        parse.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(SHOTS)}")
    names = given.names or list(SHOTS)
    if len(names) > 1:  # a process each: Qt reads the scale once
        return max(subprocess.call([sys.executable, __file__, name, "--out", str(given.out)]) for name in names)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = SHOTS[names[0]].scale
    QApplication(sys.argv[:1]).setCursorFlashTime(0)  # else some pictures had a cursor, and some had none
    size = take(names[0], given.out)
    print(f"{names[0]}.png: {size / 1000:.0f} kB" if size else f"{names[0]}.png was not made")
    return int(not 0 < size < MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
