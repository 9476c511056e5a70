"""What the window says of a loaded model: why nothing is drafted, and what to know of its heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app.application import Application
from app.jobs import drafting_reason
from medusa_core.testing import ReplayChat

Start = Callable[..., Application]


def test_a_model_that_cannot_verify_says_so_before_all_else(chat: ReplayChat, start_app: Start) -> None:
    chat.info = replace(chat.info, drafting_problem="It cannot forget rejected tokens.", heads_note="Never measured.")
    assert drafting_reason(chat.info, "none") == "It cannot forget rejected tokens."
    assert start_app().window.status_line.reason.full == "It cannot forget rejected tokens."


def test_what_to_know_of_the_heads_stands_quietly_in_the_status_line(chat: ReplayChat, start_app: Start) -> None:
    chat.info = replace(chat.info, heads_note="These heads were never measured.")
    app = start_app()
    assert app.window.status_line.reason.full == "These heads were never measured."
    assert not app.views.notices.shown()
