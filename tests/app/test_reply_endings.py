"""What is said of a reply that did not come to its own end, in the whole app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.application import Application
from app.views.notices import Way
from medusa_core.events import Finished, StopReason
from medusa_core.testing import ReplayChat

Ask = Callable[..., None]


@pytest.mark.parametrize(
    ("reason", "words"), [(StopReason.LENGTH, "longest reply"), (StopReason.CONTEXT_FULL, "context is full")]
)
def test_the_footer_says_why_a_reply_was_cut(
    app: Application, ask: Ask, chat: ReplayChat, reason: StopReason, words: str
) -> None:
    finished = chat.events[-1]
    assert isinstance(finished, Finished)
    chat.events = [*chat.events[:-1], replace(finished, reason=reason)]
    ask(app)
    assert words in app.views.chat.replies()[0].footer.text().replace("\u00a0", " ")


def test_a_full_context_is_told_with_a_way_on(app: Application, ask: Ask, chat: ReplayChat) -> None:
    finished = chat.events[-1]
    assert isinstance(finished, Finished)
    message = "The conversation fills the model's whole context."
    chat.events = [replace(finished, reason=StopReason.CONTEXT_FULL, message=message, steps=0, tokens=0)]
    ask(app)
    (notice,) = app.views.notices.shown()
    assert notice.text == message
    assert Way.NEW_CHAT in notice.ways
    app.controller.take_way(Way.NEW_CHAT)
    assert app.controller.turns == []
    assert app.views.notices.shown() == []
