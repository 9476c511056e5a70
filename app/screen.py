"""Everything on the screen that the controllers write to. Knows nothing of what is written."""

from __future__ import annotations

from dataclasses import dataclass

from app.views.chat import Chat
from app.views.composer import Composer
from app.views.conversation_list import ConversationList
from app.views.notices import NoticeArea
from app.views.panel import DecodingPanel
from app.views.settings_dialog import SettingsDialog
from app.views.undo_bar import UndoBar
from app.views.window import MainWindow


@dataclass(frozen=True, slots=True)
class Views:
    """What the controllers show things on."""

    window: MainWindow
    sidebar: ConversationList
    chat: Chat
    composer: Composer
    notices: NoticeArea
    undo: UndoBar
    panel: DecodingPanel
    dialog: SettingsDialog
