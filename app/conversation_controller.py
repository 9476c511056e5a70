"""The conversations: the list and its search, which one is open and which of its branches, and every way back.

Knows nothing of models or of how replies come about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.conversations import ImportDamaged, Transcript, from_json, grouped, to_json, to_markdown, without_repeats
from app.reply_controller import ReplyController
from app.saving import Saving
from app.screen import Views
from app.views import files
from app.views.figures_line import counted
from app.views.notices import Notice, Topic

_FORMATS = {"markdown": ("Markdown", ".md"), "json": ("JSON", ".json")}
_NOT_IN_FILE_NAMES = re.compile(r'[\\/:*?"<>|\x00-\x1f]+')
_BETWEEN_REPLIES_MS = 30  # while steps are fetched: the window answers in between
_MIDNIGHT_CHECK_MS = 60_000  # a conversation of today is one of yesterday soon enough


class ConversationController(QObject):
    """One method per intent."""

    def __init__(self, views: Views, transcript: Transcript, replies: ReplyController, saving: Saving) -> None:
        super().__init__()
        self._views, self._transcript = views, transcript
        self._replies, self._saving = replies, saving
        self._store = transcript.store
        self._words = ""  # that are searched for
        self._undo: Callable[[], None] | None = None
        self._without_steps: list[int] = []  # turns whose steps are still to be fetched
        self._idle = QTimer(self)
        self._idle.setInterval(_BETWEEN_REPLIES_MS)
        self._idle.timeout.connect(self._fetch_steps)
        self._clock = QTimer(self)
        self._clock.setInterval(_MIDNIGHT_CHECK_MS)
        self._clock.timeout.connect(self.refresh)
        self._clock.start()
        replies.changed.connect(self.refresh)

    # The list

    def refresh(self) -> None:
        """Bring the list up to date."""
        sidebar = self._views.sidebar
        with self._saving.guarded():
            if self._words:
                sidebar.show_hits(self._words, without_repeats(self._store.search(self._words)))
            else:
                sidebar.show_groups(grouped(self._store.conversations(), datetime.now().astimezone()))
        sidebar.show_current(self._transcript.conversation)

    def search(self, words: str) -> None:
        """List what is found; with no words, everything."""
        self._words = words.strip()
        self.refresh()

    def rename(self, conversation: int, title: str) -> None:
        """Another title."""
        with self._saving.guarded():
            self._store.rename(conversation, title)
        self.refresh()

    def pin(self, conversation: int, pinned: bool) -> None:
        """Keep it at the top, or no longer."""
        with self._saving.guarded():
            self._store.pin(conversation, pinned=pinned)
        self.refresh()

    def duplicate(self, conversation: int) -> None:
        """A copy, which is opened."""
        with self._saving.guarded():
            copy = self._store.duplicate(conversation).id
            self.open(copy)
        self.refresh()

    def remove(self, conversation: int) -> None:
        """Take a conversation off the list, until it is undone."""
        title = self._store.get(conversation).title
        self._remove([conversation], f"Deleted “{title}”")

    def remove_all(self) -> None:
        """Empty the list, until it is undone."""
        gone = [conversation.id for conversation in self._store.conversations()]
        if gone:
            self._remove(gone, f"Deleted {counted(len(gone), 'conversation')}")

    def _remove(self, conversations: list[int], text: str) -> None:
        was_open = self._transcript.conversation
        if was_open in conversations:
            self.new_chat()
        with self._saving.guarded():
            with self._store.database.writing():
                for conversation in conversations:
                    self._store.delete(conversation)

            def undo() -> None:
                for conversation in conversations:
                    self._store.restore(conversation)
                if was_open in conversations:
                    self.open(was_open)

            self._offer_undo(text, undo)
        self.refresh()

    def close(self) -> None:
        """The app ends: a reply under way counts as stopped, and the next process may come in."""
        self._clock.stop()
        self._idle.stop()
        self._replies.leave()
        with self._saving.guarded():
            self._transcript.save_rest()
        self._saving.stop()
        self._store.close()

    # Which one is open

    def new_chat(self) -> None:
        """An empty conversation; a reply under way is stopped, and stays in the one it belongs to."""
        self._replies.leave()
        self._transcript.new()
        self._views.chat.clear()
        self._show()

    def open(self, conversation: int, message: object = None) -> None:
        """Show a conversation; with a message that was found, its branch, and that message in view."""
        wanted = message if isinstance(message, int) else None
        if conversation == self._transcript.conversation and wanted is None:
            return
        self._replies.leave()
        opened = False
        with self._saving.guarded():
            self._transcript.open(conversation, wanted)
            opened = True
        if not opened:
            return
        self._views.chat.show_turns(self._transcript.turns)
        self._show()
        for number, turn in enumerate(self._transcript.turns):
            if wanted is not None and wanted in (turn.asked, turn.reply):
                self._views.chat.bring_to(number, reply=wanted == turn.reply)

    def _show(self) -> None:
        turns = self._transcript.turns
        self._views.sidebar.show_current(self._transcript.conversation)
        self._replies.show()
        self._without_steps = [number for number, turn in enumerate(turns) if not turn.has_events]
        if self._without_steps:
            self._idle.start()

    def _fetch_steps(self) -> None:
        """One reply's steps at a time, the newest first, whenever there is nothing else to do."""
        if self._without_steps:
            number = self._without_steps.pop()
            if number < len(self._transcript.turns):
                self._replies.load_steps(number)
        if not self._without_steps:
            self._idle.stop()

    # Its messages

    def show_variant(self, number: int, of_reply: bool, by: int) -> None:
        """The variant before (-1) or after (1) a message."""
        if self._transcript.is_writing:
            return
        has_keyboard = self._views.chat.turn_with_keyboard() == (number, of_reply)
        changed = False
        with self._saving.guarded():
            changed = self._transcript.choose(number, by, of_reply=of_reply)
        if changed:
            self._show_branch_from(number)
            if has_keyboard:
                self._views.chat.focus_message(number, reply=of_reply)

    def show_previous_variant(self) -> None:
        """Of the message with the keyboard, or else of the last one that has any."""
        self._vary(-1)

    def show_next_variant(self) -> None:
        """Of the message with the keyboard, or else of the last one that has any."""
        self._vary(1)

    def _vary(self, by: int) -> None:
        number, of_reply = self._views.chat.turn_with_keyboard()
        turns = self._transcript.turns
        if number < 0 or (turns[number].reply_place if of_reply else turns[number].question_place)[1] < 2:
            places = [
                (n, reply)
                for n, turn in enumerate(turns)
                for reply, place in ((False, turn.question_place), (True, turn.reply_place))
                if place[1] > 1
            ]
            if not places:
                return
            number, of_reply = places[-1]
        self.show_variant(number, of_reply, by)

    def remove_message(self, number: int, of_reply: bool) -> None:
        """Take a message away, and what follows it, until it is undone."""
        conversation = self._transcript.conversation
        if self._transcript.is_writing or conversation is None:
            return
        with self._saving.guarded():
            message = self._transcript.remove(number, of_reply=of_reply)
            self._show_branch_from(number)

            def undo() -> None:
                self._store.messages.restore(message)
                if self._transcript.conversation == conversation:
                    self._transcript.open(conversation)
                    self._show_branch_from(number)
                else:
                    self.open(conversation)

            self._offer_undo(f"Deleted a {'reply' if of_reply else 'question'} and what followed it", undo)

    def _show_branch_from(self, number: int) -> None:
        self._views.chat.show_from(number, self._transcript.turns[number:])
        self._show()

    # Undo

    def _offer_undo(self, text: str, undo: Callable[[], None]) -> None:
        self._undo = undo
        self._views.undo.tell(text)

    def undo(self) -> None:
        """Bring back what was deleted last."""
        undo, self._undo = self._undo, None
        self._views.undo.settle()
        if undo is not None:
            with self._saving.guarded():
                undo()
            self.refresh()

    # Files

    def export(self, conversations: Iterable[int] | None, form: str) -> None:
        """Write conversations to a file; None: all of them."""
        chosen = list(conversations) if conversations is not None else [c.id for c in self._store.conversations()]
        kind, ending = _FORMATS[form]
        if not chosen:
            self._tell("There is no conversation to export.", is_error=False)
            return
        name = self._store.get(chosen[0]).title if len(chosen) == 1 else "conversations"
        name = " ".join(_NOT_IN_FILE_NAMES.sub(" ", name).split()).strip(" .") or "conversation"
        path = files.ask_where_to_save(self._views.window, "Export", name, kind, ending)
        if path is None:
            return
        with self._saving.guarded():
            zone = datetime.now().astimezone().tzinfo
            text = to_json(self._store, chosen) if form == "json" else to_markdown(self._store, chosen, zone)
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                self._tell(f"{path} could not be written: {error.strerror or error}. Choose another place.")
            else:
                self._tell(f"Wrote {counted(len(chosen), 'conversation')} to {path}.", is_error=False)

    def import_file(self) -> None:
        """Add the conversations of an exported JSON file."""
        path = files.ask_what_to_open(self._views.window, "Import", "JSON", ".json")
        if path is not None:
            self.import_from(path)

    def import_from(self, path: Path) -> None:
        """Add the conversations of this file."""
        with self._saving.guarded():
            try:
                added = from_json(self._store, path.read_text(encoding="utf-8"))
            except ImportDamaged as error:
                self._tell(f"{path.name}: {error}")
            except (OSError, UnicodeDecodeError) as error:
                self._tell(f"{path} could not be read: {error}")
            else:
                self._tell(f"Imported {counted(len(added), 'conversation')} from {path.name}.", is_error=False)
                if added:
                    self.open(added[0])
        self.refresh()

    def _tell(self, text: str, *, is_error: bool = True) -> None:
        self._views.notices.tell(Notice(Topic.FILES, text, is_error=is_error))
