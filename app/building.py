"""Make every view of the window. Knows nothing of what is connected to what."""

from __future__ import annotations

from typing import Any

from app import theme as looks
from app.option_table import BY_KEY
from app.options import Choice
from app.screen import Views
from app.views.chat import Chat
from app.views.composer import Composer
from app.views.conversation_list import ConversationList
from app.views.notices import NoticeArea
from app.views.page import column_width
from app.views.panel import DecodingPanel
from app.views.settings_dialog import SettingsDialog
from app.views.undo_bar import UndoBar
from app.views.window import MainWindow

SUGGESTIONS = (
    "Explain how a rainbow forms.",
    "Write a short story about a lighthouse keeper.",
    "Give me five ideas for a rainy weekend.",
)


def build_views(theme: looks.Theme) -> Views:
    """The window with all that is in it, and the settings dialog."""
    chat = Chat(theme, SUGGESTIONS)
    width = column_width(chat)
    notices, undo, composer = NoticeArea(theme, width), UndoBar(width), Composer(width)
    sidebar, panel = ConversationList(theme), DecodingPanel()
    panel.set_theme(theme)
    acceptance: Any = BY_KEY["acceptance"]
    if not isinstance(acceptance, Choice):
        raise TypeError(f"the option 'acceptance' is a {type(acceptance).__name__}, not a Choice")
    window = MainWindow(theme, acceptance, sidebar, (chat, notices, undo, composer), panel)
    return Views(window, sidebar, chat, composer, notices, undo, panel, SettingsDialog(theme, window))
