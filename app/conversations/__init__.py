"""The conversation store: SQLite, saved as replies stream, searched, exported. Knows nothing of Qt or models."""

from app.conversations.dates import Group, grouped
from app.conversations.errors import (
    AlreadyOpen,
    ImportDamaged,
    Owner,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
)
from app.conversations.exchange import from_json, to_json, to_markdown
from app.conversations.messages import Messages
from app.conversations.records import Conversation, Figures, Hit, Message, MessageState, Role, state_after
from app.conversations.search import without_repeats
from app.conversations.store import ConversationStore
from app.conversations.transcript import Place, Transcript, Turn
from app.conversations.writer import ReplyWriter

__all__ = [
    "AlreadyOpen",
    "Conversation",
    "ConversationStore",
    "Figures",
    "Group",
    "Hit",
    "ImportDamaged",
    "Message",
    "MessageState",
    "Messages",
    "Owner",
    "Place",
    "ReplyWriter",
    "Role",
    "StoreDamaged",
    "StoreError",
    "StoreReadOnly",
    "StoreTooNew",
    "Transcript",
    "Turn",
    "from_json",
    "grouped",
    "state_after",
    "to_json",
    "to_markdown",
    "without_repeats",
]
