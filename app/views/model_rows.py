"""One model, or heads, in a list: name, facts, what is wrong with it, and what can be done with it.

Knows nothing of the list or of what doing it means.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.shelf import FOR, Offer, Thing, Wanted, offer_facts, size_words, thing_facts
from app.views.labels import wrapped
from app.views.status_line import ShortenedLabel


class _Row(QFrame):
    """Texts at the left, buttons at the right, room for a question beneath."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ShortenedLabel()
        self.name.setProperty("role", "title")
        self.name.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.facts, self.note = wrapped("small"), wrapped("small")
        self._head = QHBoxLayout()
        self._head.setSpacing(4)
        self._head.addWidget(self.name, 1)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(12, 8, 4, 8)
        self.column.setSpacing(2)
        self.column.addLayout(self._head)
        self.column.addWidget(self.facts)
        self.column.addWidget(self.note)

    def add_button(self, label: str, do: object, *, quiet: bool = True) -> QPushButton:
        """Another button at the right."""
        button = _button(label, do, quiet=quiet)
        self._head.addWidget(button)
        return button


class ThingRow(_Row):
    """A model or heads on this machine. Signals carry its key."""

    use_asked = Signal(str)
    removal_asked = Signal(str)
    check_asked = Signal(str)
    reveal_asked = Signal(str)
    export_asked = Signal(str, str)  # key, format
    training_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.thing: Thing | None = None
        self.use_button = self.add_button("Use", self._use, quiet=False)
        self.more_button = self.add_button("More", None)
        menu = QMenu(self.more_button)
        self.train_action = menu.addAction("Train heads for this model…", self.training_asked.emit)
        self.check_action = menu.addAction("Verify files", self._check)
        self.reveal_action = menu.addAction("Show folder", self._reveal)
        self.export_actions = {to: menu.addAction(f"Write {words}…", self._export) for to, words in FOR.items()}
        menu.addSeparator()
        self.remove_action = menu.addAction("Remove…", self.ask)
        self.more_button.setMenu(menu)
        self.question, self.remove_button = self._make_question()
        self.column.addWidget(self.question)

    def _make_question(self) -> tuple[QWidget, QPushButton]:
        question = QWidget()
        self._asked = wrapped("")
        remove, keep = _button("Remove", self._remove, quiet=False), _button("Keep", self.leave)
        row = QHBoxLayout(question)
        row.setContentsMargins(0, 4, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._asked, 1)
        row.addWidget(remove)
        row.addWidget(keep)
        question.hide()
        return question, remove

    def show_thing(self, thing: Thing, use: str, checked: str) -> None:
        """Bring it up to date. `use`: "in use", "being loaded" or ""; `checked`: what verifying found."""
        self.thing = thing
        entry = thing.entry
        self.name.set_full(entry.name)
        self.facts.setText(thing_facts(thing))
        self.note.setText(checked or entry.problem)
        self.note.setVisible(bool(self.note.text()))
        is_model = entry.kind == "model"
        self.use_button.setText(use.capitalize() if use else "Use")
        self.use_button.setEnabled(not use)
        self.train_action.setVisible(is_model)
        self.train_action.setEnabled(use == "in use")
        self.train_action.setToolTip(
            "" if use else "Use the model first: heads are trained for the one that is loaded."
        )
        for to, action in self.export_actions.items():
            action.setVisible(not is_model and not (to == "ours" and thing.ours))
        self.remove_action.setEnabled(not use)
        self.remove_action.setText("In use: use another before it can be removed" if use else "Remove…")
        for button in (self.use_button, self.more_button):
            button.setAccessibleName(f"{button.text()}: {entry.name}")
        if use:
            self.leave()

    def ask(self) -> None:
        """Whether it is to go; nothing is removed before the answer."""
        if self.thing is None:
            return
        what = "These heads" if self.thing.entry.kind == "heads" else "This model"
        self._asked.setText(f"{what} will be deleted from the disk, which frees {size_words(self.thing.entry.size)}.")
        self.question.show()
        self.remove_button.setFocus()

    def leave(self) -> None:
        """It stays."""
        self.question.hide()

    def _remove(self) -> None:
        self.question.hide()
        if self.thing is not None:
            self.removal_asked.emit(self.thing.key)

    def _use(self) -> None:
        if self.thing is not None:
            self.use_asked.emit(self.thing.key)

    def _check(self) -> None:
        if self.thing is not None:
            self.check_asked.emit(self.thing.key)

    def _export(self) -> None:
        to = next(to for to, action in self.export_actions.items() if action is self.sender())
        if self.thing is not None:
            self.export_asked.emit(self.thing.key, to)

    def _reveal(self) -> None:
        if self.thing is not None:
            self.reveal_asked.emit(self.thing.key)


class OfferRow(_Row):
    """A model of the catalogue, with the heads that were published for it."""

    get_asked = Signal(object)  # Wanted

    def __init__(self) -> None:
        super().__init__()
        self.offer: Offer | None = None
        self.heads_button = self.add_button("Get heads", self._get_heads)
        self.get_button = self.add_button("Get", self._get, quiet=False)

    def show_offer(self, offer: Offer, *, here: bool, heads_here: bool, underway: bool) -> None:
        """Bring it up to date. `here`, `heads_here`: it is, or its heads are, on this machine already."""
        self.offer = offer
        entry = offer.entry
        self.name.set_full(entry.name if entry.model == "default" else entry.model)
        self.facts.setText(offer_facts(offer))
        self.note.setText(entry.note)
        self.note.setVisible(bool(entry.note))
        self.get_button.setEnabled(not (here or underway))
        self.get_button.setText("On this computer" if here else "On its way" if underway else "Get")
        published = [heads for heads in entry.heads if not heads.whole_model]
        self.heads_button.setVisible(bool(published) and not heads_here)
        self.heads_button.setToolTip(published[0].repo if published else "")
        for button in (self.get_button, self.heads_button):
            button.setAccessibleName(f"{button.text()}: {entry.name}")

    def _get(self) -> None:
        if self.offer is not None:
            self.get_asked.emit(Wanted(self.offer.entry.model))

    def _get_heads(self) -> None:
        if self.offer is not None:
            published = [heads for heads in self.offer.entry.heads if not heads.whole_model]
            self.get_asked.emit(Wanted(published[0].repo))


def _button(label: str, do: object, *, quiet: bool = True) -> QPushButton:
    button = QPushButton(label)
    button.setAutoDefault(False)
    if quiet:
        button.setProperty("role", "quiet")
    if do is not None:
        button.clicked.connect(do)
    return button
