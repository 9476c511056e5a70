"""Collect Python's garbage in the GUI thread, and nowhere else.

Widgets and timers that refer to one another in a circle are only freed by Python's collector, which runs in whichever
thread happens to make an object; in the model's thread it would destroy widgets there, and Qt crashes. Knows nothing
of what is collected.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_EVERY_MS = 500


class GuiGarbage(QObject):
    """Takes over from the automatic collector until it is stopped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(_EVERY_MS)
        self._timer.timeout.connect(self.collect)
        self._timer.start()

    def collect(self) -> None:
        """What the automatic collector would have done by now."""
        due = [count > limit > 0 for count, limit in zip(gc.get_count(), gc.get_threshold(), strict=True)]
        if any(due):
            gc.collect(max(generation for generation, is_due in enumerate(due) if is_due))

    def settle(self) -> None:
        """What exists now is there to stay, libraries above all: no later collection looks at it again."""
        gc.collect()
        gc.freeze()

    def loosen(self) -> None:
        """A model went that was there to stay: find what it left in circles, before the next one needs the memory."""
        gc.unfreeze()
        gc.collect()

    def stop(self) -> None:
        """Give back to the automatic collector; for when no other thread is left."""
        self._timer.stop()
        gc.collect()  # or whichever thread is still ending would find widgets in what is left
        gc.enable()
