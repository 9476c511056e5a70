"""The row under a message: which of its variants is shown, and what can be done with it.

The buttons wait unseen until the pointer or the keyboard is in the message. Knows nothing of messages.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from app.theme import Theme
from app.views.quiet_button import QuietButton

_HEIGHT, _HEIGHT_WITH_WAY = 24, 32


class MessageBar(QWidget):
    """Variants at the left, then a way on in words, then the small buttons."""

    variant_asked = Signal(int)  # -1: the one before, 1: the one after

    def __init__(self, theme: Theme, what: str, indent: int) -> None:
        super().__init__()
        self._buttons: list[QuietButton] = []
        self.previous_button = self._variant_button(theme, "left", f"Previous variant of the {what}", "Alt+Left")
        self.next_button = self._variant_button(theme, "right", f"Next variant of the {what}", "Alt+Right")
        self.place = QLabel()
        self.place.setProperty("role", "small")
        self.place.setToolTip(f"Which of the variants of this {what} is shown")
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(indent, 0, indent, 0)
        self._row.setSpacing(2)
        for widget in (self.previous_button, self.place, self.next_button):
            self._row.addWidget(widget)
        self._row.addStretch(1)
        self.setFixedHeight(_HEIGHT)
        self.previous_button.clicked.connect(self._ask_for_previous)
        self.next_button.clicked.connect(self._ask_for_next)
        self.set_place(0, 1)

    def _variant_button(self, theme: Theme, way: str, name: str, keys: str) -> QuietButton:
        return QuietButton(theme, f"mdi6.chevron-{way}", name, f"{name} ({keys})", waits=False)

    def add_button(self, button: QuietButton) -> None:
        """One more thing that can be done, at the right of those before."""
        self._buttons.append(button)
        self._row.addWidget(button)

    def add_way(self, button: QPushButton) -> None:
        """Something that is likely wanted next, in words."""
        self._row.insertWidget(self._row.count() - 1 - len(self._buttons), button)

    def make_room(self, *, for_way: bool) -> None:
        """A way on in words is higher than the small buttons."""
        self.setFixedHeight(_HEIGHT_WITH_WAY if for_way else _HEIGHT)

    @property
    def buttons(self) -> tuple[QuietButton, ...]:
        """All small buttons, those for variants included."""
        return (self.previous_button, self.next_button, *self._buttons)

    def set_place(self, variant: int, variants: int) -> None:
        """Which of how many variants is shown; one alone is not worth telling."""
        self.place.setText(f"{variant + 1}/{variants}")
        self.place.setAccessibleName(f"Variant {variant + 1} of {variants}")
        for widget in (self.previous_button, self.place, self.next_button):
            widget.setVisible(variants > 1)
        self._may_go = (variant > 0, variant + 1 < variants)
        self.set_usable(True)

    def set_usable(self, usable: bool) -> None:
        """Whether another variant can be shown now."""
        self.previous_button.setEnabled(usable and self._may_go[0])
        self.next_button.setEnabled(usable and self._may_go[1])

    def set_shown(self, shown: bool) -> None:
        """Show the buttons that wait."""
        for button in self._buttons:
            button.set_shown(shown)

    def set_theme(self, theme: Theme) -> None:
        for button in self.buttons:
            button.set_theme(theme)

    def _ask_for_previous(self) -> None:
        self.variant_asked.emit(-1)

    def _ask_for_next(self) -> None:
        self.variant_asked.emit(1)
