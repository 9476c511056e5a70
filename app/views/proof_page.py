"""Prove it: the last question runs again without drafting; both speeds side by side, and whether the replies agree.

Shows what it is told and reports two wishes: run, and cancel. Knows nothing of how a reply is made.
"""

from __future__ import annotations

import html

import qtawesome
from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.proof import PROMISES, Claim, Proof
from app.theme import Theme, token_font, ui_font
from app.views.figures_line import counted
from app.views.tree_paint import space_mark
from app.views.tree_words import visible
from medusa_core.model_info import Weight

WHAT = (
    "Runs the last question again without drafting, one token a step, with the same settings and the same seed. "
    "Both speeds appear side by side, and the replies are compared token for token."
)
NOTHING_YET = "There is no reply to prove yet: ask something first."
CANCELLED = "Cancelled; nothing was compared."
NEWLINE = "\n"
_ROW_PX = 24.0


class SpeedBars(QWidget):
    """Two speeds on one scale: with drafting filled, without drafting hatched."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._speeds = (0.0, 0.0)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Both speeds")

    @property
    def speeds(self) -> tuple[float, float]:
        """Tokens per second with and without drafting, as drawn."""
        return self._speeds

    def sizeHint(self) -> QSize:
        """Two rows."""
        return QSize(200, int(2 * _ROW_PX))

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.update()

    def show_speeds(self, drafted: float, plain: float) -> None:
        """Both in tokens per second; 0: not known yet."""
        self._speeds = (drafted, plain)
        self.setAccessibleDescription(f"with drafting {drafted:.1f}, without {plain:.1f} tokens per second")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Label, bar from zero, figure with its unit."""
        painter = QPainter(self)
        painter.setFont(ui_font())
        metrics = QFontMetricsF(painter.font())
        label_px = metrics.horizontalAdvance("without") + 12
        figure_px = metrics.horizontalAdvance("1000.0 tokens/s") + 8
        top = max(*self._speeds, 1e-9)
        for row, (name, speed) in enumerate(zip(("drafted", "without"), self._speeds, strict=True)):
            line = QRectF(0, row * _ROW_PX, self.width(), _ROW_PX)
            painter.setPen(QColor(self._theme.text_muted))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, name)
            track = QRectF(label_px, line.center().y() - 5, self.width() - label_px - figure_px, 10)
            painter.fillRect(track, QColor(self._theme.surface_raised))
            track.setWidth(track.width() * speed / top)
            colour = QColor(self._theme.text_muted if row else self._theme.accepted)
            painter.fillRect(track, QBrush(colour, Qt.BrushStyle.BDiagPattern if row else Qt.BrushStyle.SolidPattern))
            painter.setPen(QColor(self._theme.text))
            text = f"{speed:.1f} tokens/s" if speed else "–"
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)


class ProofPage(QWidget):
    """One card: what is promised, both speeds, the outcome, and the button."""

    prove_asked = Signal()
    cancel_asked = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._running = False
        self._reason = NOTHING_YET
        self._good: bool | None = None
        self._promise = self._text(WHAT)
        self.bars = SpeedBars(theme)
        self._mark, self._outcome = QLabel(), self._text("")
        self._outcome.setProperty("role", "title")
        self._details = self._text("")
        self._details.setTextFormat(Qt.TextFormat.RichText)
        self.button = QPushButton("Run again without drafting")
        self.button.clicked.connect(self._press)
        self._stack()
        self.setAccessibleName("Prove it")
        self.clear()

    def _stack(self) -> None:
        card = QFrame()
        card.setProperty("role", "panel")
        column = QVBoxLayout(card)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self._mark, 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self._outcome, 1)
        for widget in (self._promise, self.bars):
            column.addWidget(widget)
        column.addLayout(head)
        column.addWidget(self._details)
        row = QHBoxLayout()
        row.addWidget(self.button)
        row.addStretch()
        column.addLayout(row)
        page = QVBoxLayout(self)
        page.setContentsMargins(0, 4, 0, 0)
        page.addWidget(card)
        page.addStretch()

    @property
    def said(self) -> str:
        """All it says."""
        return "\n".join(label.text() for label in (self._promise, self._outcome, self._details))

    def set_theme(self, theme: Theme) -> None:
        """Draw in other colours."""
        self._theme = theme
        self.bars.set_theme(theme)
        self._show_mark()

    def clear(self) -> None:
        """Forget the outcome."""
        self._running = False
        self._promise.setText(WHAT)
        self.bars.hide()
        self._say(None, "", "")
        self.set_ready(self._reason)

    def set_ready(self, reason: str) -> None:
        """Offer the run, or say why it cannot be had now; "": it can."""
        self._reason = reason
        if not self._running:
            self.button.setText("Run again without drafting")
            self.button.setEnabled(not reason)
            self.button.setToolTip(reason)

    def begin(self, claim: Claim, drafted_speed: float) -> None:
        """The run has started."""
        self._running = True
        self._promise.setText(PROMISES[claim])
        self.bars.show()
        self.bars.show_speeds(drafted_speed, 0.0)
        self._say(None, "Reading the prompt …", "")
        self.button.setText("Cancel")
        self.button.setEnabled(True)
        self.button.setToolTip("Stops within one step")

    def show_progress(self, tokens: int, expected: int, drafted_speed: float, plain_speed: float) -> None:
        """Another piece of the plain reply has come."""
        self.bars.show_speeds(drafted_speed, plain_speed)
        self._say(None, f"Without drafting: {tokens} of {expected} tokens …", "")

    def end(self, words: str) -> None:
        """The run ended without an outcome; say why."""
        self._running = False
        self.bars.hide()
        self._say(None, words, "")
        self.set_ready(self._reason)

    def show_proof(self, proof: Proof) -> None:
        """The outcome."""
        self._running = False
        self._promise.setText(PROMISES[proof.claim])
        self.bars.show()
        self.bars.show_speeds(proof.drafted.tokens_per_second, proof.plain.tokens_per_second)
        # Where nothing was promised, a difference is neither a success nor a fault.
        good = None if proof.held and not proof.identical else proof.held
        self._say(good, _outcome(proof), _details(proof))
        self.set_ready(self._reason)

    def _say(self, good: bool | None, outcome: str, details: str) -> None:
        self._good = good
        self._outcome.setText(outcome)
        self._details.setText(details)
        self._outcome.setVisible(bool(outcome))
        self._details.setVisible(bool(details))
        self._show_mark()

    def _show_mark(self) -> None:
        self._mark.setVisible(self._good is not None)
        if self._good is not None:
            name, colour = ("mdi6.check-circle-outline", self._theme.accepted)
            if not self._good:
                name, colour = ("mdi6.alert-circle-outline", self._theme.warning)
            self._mark.setPixmap(qtawesome.icon(name, color=colour).pixmap(QSize(18, 18), self.devicePixelRatioF()))

    def _press(self) -> None:
        (self.cancel_asked if self._running else self.prove_asked).emit()

    def _text(self, words: str) -> QLabel:
        label = QLabel(words)
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label


def _outcome(proof: Proof) -> str:
    speed = f"{proof.speed_up:.2f}× as fast with drafting"
    if proof.speed_up < 0.995:
        speed = f"drafting was slower here: {proof.speed_up:.2f}×"
    if proof.parting is None:
        count = counted(proof.compared, "token")
        same = f"Identical: all {count}" if proof.complete else f"Identical as far as was compared: {count}"
        return f"{same}; {speed}."
    return f"They differ from token {proof.parting.index + 1} on; {speed}."


def _details(proof: Proof) -> str:
    parting = proof.parting
    if parting is None:
        return ""
    family = html.escape(token_font().family())
    sides = (("drafted", parting.drafted, parting.drafted_weight), ("without", parting.plain, parting.plain_weight))
    rows = "".join(
        f"<tr><td>{name}&nbsp;&nbsp;</td><td style='font-family:\"{family}\"'>{_token(text)}&nbsp;&nbsp;</td>"
        f"<td>{_weight(weight)}</td></tr>"
        for name, text, weight in sides
    )
    before = f"…{html.escape(parting.before.replace(NEWLINE, '⏎'))}" if parting.before else "the beginning"
    note = ""
    if proof.claim is not Claim.APPROXIMATE and parting.drafted_weight and parting.plain_weight:
        gap = abs(parting.drafted_weight.logit - parting.plain_weight.logit)
        note = (
            f"<p>The two logits lie {gap:.4f} apart. A pass over a tree sums in another order than a pass over one "
            "token; where two tokens are as good as tied, that rounding decides.</p>"
        )
    return f"<p>After <span style='font-family:\"{family}\"'>{before}</span>:</p><table>{rows}</table>{note}"


def _token(text: str) -> str:
    return html.escape(visible(text)).replace("␠", space_mark(token_font())) if text else "(ends here)"


def _weight(weight: Weight | None) -> str:
    return "" if weight is None else f"logit {weight.logit:.4f}, p {100 * weight.probability:.2f} %"
