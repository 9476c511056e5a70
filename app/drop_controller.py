"""What becomes of files that are dropped on the main window: models and heads come into the library, conversations and
recordings are opened. Knows nothing of how any of it is read.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.conversation_controller import ConversationController
from app.models_controller import ModelsController
from app.panel_controller import PanelController
from app.recordings import SUFFIXES
from app.views.notices import Notice, NoticeArea, Topic

_MODELS = (".gguf", ".safetensors", ".pt")
_CONVERSATIONS = ".json"


class DropController(QObject):
    """Sorts what was dropped."""

    def __init__(
        self,
        models: ModelsController,
        conversations: ConversationController,
        panel: PanelController,
        notices: NoticeArea,
    ) -> None:
        super().__init__()
        self._models, self._conversations, self._panel, self._notices = models, conversations, panel, notices

    def take(self, paths: list[Path]) -> None:
        """Do with each what its kind calls for; what is of no use is named."""
        models, unknown = [], []
        for path in paths:
            name = path.name.lower()
            if path.is_dir() or name.endswith(_MODELS):
                models.append(path)
            elif name.endswith(SUFFIXES):
                self._panel.open_recording(path)
            elif name.endswith(_CONVERSATIONS):
                self._conversations.import_from(path)
            else:
                unknown.append(path.name)
        if models:
            self._models.open()
            self._models.bring_in(models)
        if unknown:
            self._notices.tell(
                Notice(
                    Topic.FILES,
                    f"{', '.join(unknown)} cannot be used here. Drop a model’s folder or .gguf file, heads, exported "
                    "conversations (.json) or a recording (.jsonl.gz).",
                )
            )
