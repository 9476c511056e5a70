"""From a line and its pieces to Qt's formats: insets, gaps, fonts and colours of one theme.

Knows nothing of documents or widgets.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QTextBlockFormat, QTextCharFormat

from app.markdown import Style
from app.theme import Theme, token_font, ui_font
from app.views.lines import Inset, Line, Piece

LINE_HEIGHT = 1.45  # of the font's size
QUOTE_PX = 16
_HEADING = 1.25  # of the body's size, for the two upper levels
_LEAST_AFTER_MARKER = 4.0  # px

_ALIGNMENTS = {
    "left": Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute,
    "right": Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "": Qt.AlignmentFlag.AlignLeft,  # the side where the direction begins
}


def kind_colour(theme: Theme, kind: str) -> str:
    """The colour of a kind of code, as Pygments names it; the nearest kind above it that has one."""
    colours = {
        "Keyword": theme.accent,
        "Name.Tag": theme.accent,
        "Operator.Word": theme.accent,
        "Literal.String": theme.accepted,
        "Literal.Number": theme.warning,
        "Keyword.Constant": theme.warning,
        "Comment": theme.text_muted,
        "Name.Function": theme.source_recycling,
        "Name.Class": theme.source_recycling,
        "Name.Decorator": theme.source_recycling,
        "Name.Attribute": theme.source_recycling,
        "Generic.Deleted": theme.error,
        "Generic.Inserted": theme.accepted,
        "Generic.Heading": theme.accent,
        "Generic.Subheading": theme.accent,
    }
    while kind and kind not in colours:
        kind = kind.rpartition(".")[0]
    return colours.get(kind, theme.text)


def inset_width(inset: Inset) -> int:
    """How far an inset sets in, in px. A list's is as wide as its markers, whatever entries are still to come."""
    metrics = QFontMetricsF(ui_font())
    widths = {
        Inset.QUOTE: float(QUOTE_PX),
        Inset.BULLET: metrics.horizontalAdvance("•") + metrics.averageCharWidth() * 1.25,
        Inset.NUMBER: metrics.horizontalAdvance("00. "),
    }
    return round(widths[inset])


class Formats:
    """The formats of one theme, each made once."""

    def __init__(self, theme: Theme, *, is_code: bool = False) -> None:
        self._theme, self._is_code = theme, is_code
        self.font = token_font() if is_code else ui_font()
        self.heading_font = self._heading_font()
        metrics = QFontMetricsF(self.font)
        self._percent = max(100.0, 100 * LINE_HEIGHT * self.font.pixelSize() / metrics.height())
        self._insets = {inset: inset_width(inset) for inset in Inset}
        self._made: dict[tuple[Style, bool, str, int], QTextCharFormat] = {}

    def _heading_font(self) -> QFont:
        font = QFont(self.font)
        font.setPixelSize(round(_HEADING * font.pixelSize()))
        return font

    def block(self, line: Line) -> QTextBlockFormat:
        """The format of a line."""
        block = QTextBlockFormat()
        block.setLineHeight(self._percent, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        block.setLayoutDirection(
            Qt.LayoutDirection.RightToLeft if line.right_to_left else Qt.LayoutDirection.LeftToRight
        )
        inset = float(sum(self._insets[inset] for inset in line.insets))
        (block.setRightMargin if line.right_to_left else block.setLeftMargin)(inset)
        if line.marked:
            block.setTextIndent(-float(self._insets[line.insets[-1]]))
        block.setTopMargin(line.gap)
        block.setAlignment(_ALIGNMENTS[line.alignment])
        if self._is_code:
            block.setNonBreakableLines(True)
        return block

    def text(self, line: Line, number: int) -> QTextCharFormat:
        """The format of a piece of a line."""
        piece = line.pieces[number]
        if line.marked and number == 1:
            return self._after_marker(line)
        key = (piece.style, bool(piece.link), piece.kind, line.level)
        if key not in self._made:
            self._made[key] = self._make(piece, line.level)
        if not piece.link:
            return self._made[key]
        linked = QTextCharFormat(self._made[key])
        linked.setAnchor(True)
        linked.setAnchorHref(piece.link)
        linked.setToolTip(piece.link)
        return linked

    def _make(self, piece: Piece, level: int) -> QTextCharFormat:
        made = QTextCharFormat()
        font = QFont(self.heading_font if 1 <= level <= 2 else self.font)
        if Style.CODE in piece.style and not self._is_code:
            size = font.pixelSize()
            font = token_font()
            font.setPixelSize(size - 1)
        if level or Style.BOLD in piece.style:
            font.setWeight(QFont.Weight.DemiBold if level else QFont.Weight.Bold)
        font.setItalic(Style.ITALIC in piece.style)
        font.setStrikeOut(Style.STRIKE in piece.style)
        font.setUnderline(bool(piece.link))
        made.setFont(font)
        made.setForeground(QColor(self._colour(piece, level)))
        return made

    def _colour(self, piece: Piece, level: int) -> str:
        if piece.link:
            return self._theme.accent
        if self._is_code:
            return kind_colour(self._theme, piece.kind)
        muted = Style.IMAGE in piece.style or Style.STRIKE in piece.style or level >= 4
        return self._theme.text_muted if muted else self._theme.text

    def _after_marker(self, line: Line) -> QTextCharFormat:
        """A space as wide as what the marker leaves of its inset."""
        metrics = QFontMetricsF(self._make(line.pieces[0], line.level).font())
        free = self._insets[line.insets[-1]] - metrics.horizontalAdvance(line.pieces[0].shown)
        space = QTextCharFormat(self._make(line.pieces[0], line.level))
        space.setFontLetterSpacingType(QFont.SpacingType.AbsoluteSpacing)
        space.setFontLetterSpacing(max(_LEAST_AFTER_MARKER, free) - metrics.horizontalAdvance(" "))
        return space
