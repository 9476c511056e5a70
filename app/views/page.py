"""A scrolling column that follows its end only while the reader is there. Knows nothing of what stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.views.message import INDENT
from app.views.source_text import MEASURE

_MARGIN = 16


class FollowingPage(QWidget):
    """Widgets one below the other, in the middle of the page."""

    def __init__(self) -> None:
        super().__init__()
        self._following = True
        self._scroll = self._scroll_area()
        self.jump_button = self._jump_button()
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 0, 0, 0)
        page.setSpacing(0)
        page.addWidget(self._scroll)
        bar = self._scroll.verticalScrollBar()
        bar.valueChanged.connect(self._note_position)
        bar.rangeChanged.connect(self._keep_position)

    def _scroll_area(self) -> QScrollArea:
        self._column = QWidget()
        self._column.setMaximumWidth(column_width(self))
        self._list = QVBoxLayout(self._column)
        self._list.setContentsMargins(0, _MARGIN, 0, _MARGIN)
        self._list.setSpacing(4)  # the messages' bars keep them apart
        self._page = page = QWidget()
        self._row = row = QHBoxLayout(page)
        row.setContentsMargins(_MARGIN, 0, _MARGIN, 0)
        row.addStretch(1)
        row.addWidget(self._column, 1000)
        row.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setAccessibleName("Conversation")
        scroll.viewport().installEventFilter(self)
        return scroll

    def _jump_button(self) -> QPushButton:
        button = QPushButton("New text ↓", self)
        button.setToolTip("Go to the end of the conversation")
        button.setAccessibleName("Go to the new text")
        button.clicked.connect(self.follow)
        button.hide()
        return button

    # What stands in it

    def set_head(self, widget: QWidget) -> None:
        """What stands above the page, and does not scroll."""
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(0, widget)

    def fill(self, widget: QWidget) -> None:
        """What takes all the room while it is shown."""
        self._list.addWidget(widget, 1)
        self._list.addStretch(0)

    def add(self, widget: QWidget) -> None:
        """One more at the end."""
        self._list.insertWidget(self._list.count() - 1, widget)
        widget.show()  # now, not with the next event: heights depend on the width it is given
        if self._column.isVisible():
            self._list.activate()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Add many at once: they are laid out together at the end."""
        self._column.hide()
        try:
            yield
        finally:
            self._column.show()
            self.settle()

    def take_away(self, widget: QWidget) -> None:
        """One less; it is deleted."""
        self._list.removeWidget(widget)
        widget.hide()
        widget.deleteLater()

    # Where the reader is

    def follow(self) -> None:
        """Go to the end, and stay there while text comes in."""
        self._following = True
        self.jump_button.hide()
        bar = self._scroll.verticalScrollBar()
        bar.setValue(bar.maximum())

    def is_following(self) -> bool:
        """Whether new text is brought into view."""
        return self._following

    @property
    def place(self) -> int:
        """How far down the reader is, in px."""
        return self._scroll.verticalScrollBar().value()

    def go_to(self, place: int) -> None:
        """Go there, once everything has its height."""
        self._following = False
        self.settle()
        self._scroll.verticalScrollBar().setValue(place)

    def go_to_widget(self, widget: QWidget) -> None:
        """Bring the beginning of one of the widgets to the top."""
        self._following = False
        self.settle()
        self._scroll.verticalScrollBar().setValue(widget.mapTo(self._page, QPoint(0, 0)).y() - _MARGIN)

    def settle(self, changed: QWidget | None = None) -> None:
        """Let everything, or the one widget that changed, have its height now, not level by level with the next events.

        From the innermost on: a layout that was asked while it could not be seen waits for somebody to ask it again.
        """
        within = changed or self._column
        for _ in range(2):  # a box knows its height once its text has its width
            for widget in reversed([within, *within.findChildren(QWidget)]):
                if (layout := widget.layout()) is not None:
                    layout.activate()
            self._list.activate()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)

    def reshape(self, widget: QWidget) -> None:
        """Let a widget have its height that the reader has folded or unfolded; what is above stays where it is."""
        bar = self._scroll.verticalScrollBar()
        place, self._following = bar.value(), False
        for _ in range(2):  # the page gets shorter only after what stands in it
            self.settle(widget)
        bar.setValue(place)
        self._note_position(bar.value())

    def _note_position(self, value: int) -> None:
        bar = self._scroll.verticalScrollBar()
        self._following = value >= bar.maximum() - self.fontMetrics().lineSpacing()
        if self._following:
            self.jump_button.hide()

    def _keep_position(self, _low: int, high: int) -> None:
        if self._following:
            self._scroll.verticalScrollBar().setValue(high)

    def follow_caret(self, place: QRectF) -> None:
        """Keep the keyboard's caret in view; a slot for the widget it is in."""
        text = self.sender()
        if isinstance(text, QWidget):
            self.bring_into_view(text, place)

    def bring_into_view(self, text: QWidget, place: QRectF) -> None:
        """Scroll no further than it takes to see a place in a widget."""
        page = self._page
        top = text.mapTo(page, place.topLeft().toPoint()).y()
        bar, height = self._scroll.verticalScrollBar(), self._scroll.viewport().height()
        if top < bar.value() + _MARGIN:
            bar.setValue(top - _MARGIN)
        elif top + place.height() > bar.value() + height - _MARGIN:
            bar.setValue(round(top + place.height()) + _MARGIN - height)

    def bring_to_middle(self, text: QWidget, place: QRectF) -> None:
        """Where a place in a widget is out of view, or close to its edge: scroll it to the middle."""
        bar, height = self._scroll.verticalScrollBar(), self._scroll.viewport().height()
        top = text.mapTo(self._page, place.topLeft().toPoint()).y()
        near = 2 * _MARGIN
        if not bar.value() + near <= top <= top + place.height() <= bar.value() + height - near:
            bar.setValue(round(top + place.height() / 2 - height / 2))

    def top_in(self, text: QWidget) -> int:
        """How far down in a widget, in px, the first line in view is; negative where the widget is further down."""
        return self.place - text.mapTo(self._page, QPoint(0, 0)).y()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Resize:
            # The scroll bar comes out of the right margin, so that the column stays where it is.
            bar_width = self._scroll.width() - self._scroll.viewport().width()
            self._row.setContentsMargins(_MARGIN, 0, max(0, _MARGIN - bar_width), 0)
            size = self.jump_button.sizeHint()
            view = self._scroll.viewport().geometry().translated(self._scroll.pos())
            self.jump_button.setGeometry(
                view.center().x() - size.width() // 2, view.bottom() - size.height() - 8, size.width(), size.height()
            )
            self.jump_button.raise_()
        return super().eventFilter(watched, event)


def column_width(widget: QWidget) -> int:
    """The widest a message may be: the measure, and the indents at its sides."""
    metrics = QFontMetricsF(widget.font())
    return round(metrics.averageCharWidth() * MEASURE) + 2 * INDENT
