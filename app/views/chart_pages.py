"""What stands under the tree: four pages of figures about a reply, one of them on screen.

Only the page on screen is drawn anew while a reply streams. Knows nothing of trees or of how figures come about.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.theme import Theme
from app.views.acceptance_bars import AcceptanceBars
from app.views.charts import SpeedChart
from app.views.expectation_page import FORMS, ExpectationPage
from app.views.proof_page import WHAT, ProofPage
from app.views.step_charts import LengthHistogram, TimeChart
from app.views.step_figures import StepFigures
from medusa_core.events import Step
from medusa_core.model_info import Measured

SPEED, STEPS, EXPECT, PROVE = range(4)
_LEAST_PX = 112
_TABS = (
    ("Speed", "Speed and acceptance of this reply"),
    ("Steps", "How many guesses each step kept, and where its time went"),
    ("What to expect", FORMS),
    ("Prove it", WHAT),
)


class ChartPages(QWidget):
    """A row of tabs and the page of one of them."""

    page_shown = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = StepFigures()
        self._measured, self._sampled = Measured(), True
        self.speed, self.acceptance = SpeedChart(theme), AcceptanceBars(theme)
        self.lengths, self.times = LengthHistogram(theme), TimeChart(theme)
        self.expectation, self.proof = ExpectationPage(theme), ProofPage(theme)
        self._tabs = QButtonGroup(self)
        self._stack = QStackedWidget()
        self._pages = (
            _column((self.speed, 1), (self.acceptance, 0)),
            _column((self.lengths, 1), (self.times, 1)),
            self.expectation,
            self.proof,
        )
        for page in self._pages:
            self._stack.addWidget(_scrolling(page))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(self._tab_row())
        column.addWidget(self._stack, 1)
        self._tabs.idClicked.connect(self.show_page)
        self.show_page(SPEED)

    def _tab_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        for number, (name, what) in enumerate(_TABS):
            tab = QPushButton(name)
            tab.setProperty("role", "tab")
            tab.setCheckable(True)
            tab.setToolTip(what)
            self._tabs.addButton(tab, number)
            row.addWidget(tab)
        rest = QWidget()  # the line under the tabs goes on to the edge
        rest.setProperty("role", "tab-rest")
        rest.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row.addWidget(rest, 1)
        return row

    @property
    def figures(self) -> StepFigures:
        """Of the reply so far."""
        return self._figures

    @property
    def page(self) -> int:
        """Which page is on screen."""
        return self._stack.currentIndex()

    def show_page(self, number: int) -> None:
        """Bring a page to the front and up to date."""
        self._tabs.button(number).setChecked(True)
        self._stack.setCurrentIndex(number)
        self._draw()
        self.page_shown.emit(number)

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        for part in (self.speed, self.acceptance, self.lengths, self.times, self.expectation, self.proof):
            part.set_theme(theme)

    def set_measured(self, measured: Measured, plain_tokens_per_second: float, *, of_a_reply: bool = False) -> None:
        """What is known of the machine and the heads; the plain speed may be a reply's own, where one was run."""
        self._measured = measured
        self.speed.set_plain(plain_tokens_per_second, of_a_reply=of_a_reply)
        self.expectation.set_measured(measured, plain_tokens_per_second)
        self._draw()

    def set_sampled(self, sampled: bool) -> None:
        """Whether the reply is drawn at random: heads were measured on both kinds."""
        self._sampled = sampled
        self._draw()

    def clear(self) -> None:
        """Start a new reply."""
        self._figures = StepFigures()
        self.speed.clear()
        self.acceptance.clear()
        self.lengths.show_shares(())
        self.times.clear()
        self.proof.clear()

    def add(self, steps: Sequence[Step]) -> None:
        """Take steps in, and draw what is on screen."""
        for step in steps:
            self._figures.add(step)
        self.speed.add(steps)
        self._draw()

    def _draw(self) -> None:
        figures = self._figures
        if not figures.metrics.steps:
            return
        if self.page == SPEED:
            expected = self._measured.acceptance(figures.mean_draft_nodes, sampled=self._sampled)
            self.acceptance.show_figures(figures, expected)
        elif self.page == STEPS:
            self.lengths.show_shares(figures.lengths)
            self.times.show_times(figures.times)

    def charts(self) -> QWidget:
        """The page on screen, for export."""
        return self._pages[self.page]


def _scrolling(page: QWidget) -> QScrollArea:
    """A low window scrolls the page; nothing in it is ever cut."""
    area = QScrollArea()
    area.setWidget(page)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setMinimumHeight(_LEAST_PX)
    return area


def _column(*widgets: tuple[QWidget, int]) -> QWidget:
    page = QWidget()
    column = QVBoxLayout(page)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(12)
    for widget, stretch in widgets:
        column.addWidget(widget, stretch)
    column.addStretch(0)
    return page
