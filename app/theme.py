"""Colours, fonts and the style sheet of the app, read from `resources/themes.json`.

Views ask for colours by what they mean, never by value. Knows nothing of any view.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from string import Template

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QGuiApplication, QIcon, QPalette
from PySide6.QtWidgets import QApplication

RESOURCES = Path(__file__).resolve().parent.parent / "resources"
BODY_PX = 13  # the smallest body text; a larger system font wins
RADIUS_PX = 6


@dataclass(frozen=True, slots=True)
class Theme:
    """One set of semantic colours, each as '#rrggbb'."""

    name: str  # "light" or "dark"
    surface: str
    surface_raised: str
    text: str
    text_muted: str
    line: str
    accent: str
    accepted: str
    on_accepted: str  # text on a fill of `accepted`
    accepted_tint: str  # behind text that came free
    found: str  # behind words that were looked for
    found_line: str  # around them
    rejected: str
    unreached: str
    source_head: str
    source_lookup: str
    source_recycling: str
    warning: str
    error: str

    @property
    def is_dark(self) -> bool:
        """Whether the surface is darker than its text."""
        return QColor(self.surface).lightnessF() < 0.5


def load_themes() -> dict[str, Theme]:
    """Every theme of the resources by name; a missing or unknown colour name raises TypeError."""
    data = json.loads((RESOURCES / "themes.json").read_text(encoding="utf-8"))
    return {name: Theme(name=name, **colours) for name, colours in data.items()}


def system_theme() -> str:
    """'dark' where the desktop asks for dark windows, else 'light'."""
    return "dark" if QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark else "light"


def system_font(size: int = 0) -> QFont:
    """The system's own font, at `size` px; 0: at the body size, or the system's larger one."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(size or max(BODY_PX, QFontInfo(font).pixelSize()))
    return font


def ui_font() -> QFont:
    """The font that `apply` has dressed the app in."""
    font = QGuiApplication.font()
    font.setPixelSize(max(BODY_PX, QFontInfo(font).pixelSize()))
    return font


def small_font() -> QFont:
    """The UI font one size down: captions, axes, column heads."""
    font = ui_font()
    font.setPixelSize(font.pixelSize() - 2)
    return font


def title_font() -> QFont:
    """The UI font for the name of a section."""
    font = ui_font()
    font.setWeight(QFont.Weight.DemiBold)
    return font


def token_font() -> QFont:
    """The system's fixed-width font, for tokens, code and figures."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(ui_font().pixelSize() - 1)  # fixed-width faces look larger than text faces of one size
    return font


def app_icon() -> QIcon:
    """The app's own icon: a head with branching lines."""
    return QIcon(str(RESOURCES / "icons" / "medusa.svg"))


def apply(app: QApplication, theme: Theme, font_size: int = 0) -> None:
    """Dress the whole app in `theme`, its text `font_size` px (0: as the system); may be called again."""
    app.setStyle("Fusion")  # the one style that follows a palette on every platform
    app.setWindowIcon(app_icon())
    app.setFont(system_font(font_size))
    app.setPalette(palette(theme))
    app.setStyleSheet(style_sheet(theme))


def palette(theme: Theme) -> QPalette:
    """The theme in the roles that Qt's own controls are drawn with."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.surface,
        role.WindowText: theme.text,
        role.Base: theme.surface,
        role.AlternateBase: theme.surface_raised,
        role.Text: theme.text,
        role.PlaceholderText: theme.text_muted,
        role.Button: theme.surface_raised,
        role.ButtonText: theme.text,
        role.BrightText: theme.error,
        role.ToolTipBase: theme.surface_raised,
        role.ToolTipText: theme.text,
        role.Link: theme.accent,
        role.LinkVisited: theme.source_recycling,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.surface,
        role.Accent: theme.accent,
        role.Mid: theme.line,
        role.Dark: theme.unreached,
    }
    result = QPalette(QColor(theme.surface_raised), QColor(theme.surface))
    for which, colour in colours.items():
        result.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        result.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.unreached))
    return result


def style_sheet(theme: Theme) -> str:
    """The style sheet of the whole app.

    A widget's dynamic property `role` picks a variant: `title`, `muted`, `small`, `figure` for labels, `primary` and
    `quiet` for buttons, `panel` for a soft raised frame, `warning` and `error` for labels and frames.
    """
    colours = {field.name: getattr(theme, field.name) for field in fields(theme)}
    sheet = (RESOURCES / "style.qss").read_text(encoding="utf-8")
    return Template(sheet).substitute(
        colours,
        radius=f"{RADIUS_PX}px",
        small=f"{small_font().pixelSize()}px",
        body=f"{ui_font().pixelSize()}px",
        token_family=token_font().family(),
        icons=(RESOURCES / "icons").as_posix(),
    )
