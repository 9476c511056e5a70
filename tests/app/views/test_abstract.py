"""A widget that leaves something to its subclasses cannot be made; a subclass that does it all can."""

from __future__ import annotations

from abc import abstractmethod

import pytest
from PySide6.QtCore import QObject

from app.views.abstract import AbstractQt
from app.views.message import Message
from app.views.settings_controls import OptionControl


class Speaker(QObject, metaclass=AbstractQt):
    @abstractmethod
    def word(self) -> str:
        """What it says."""


class Dog(Speaker):
    def word(self) -> str:
        return "woof"


def test_what_is_missing_is_named(qapp: object) -> None:
    with pytest.raises(TypeError, match="Speaker cannot be made: word is left to its subclasses"):
        Speaker()
    assert Dog().word() == "woof"


@pytest.mark.parametrize("kind", [Message, OptionControl])
def test_half_made_widgets_of_the_app_are_refused(kind: type[QObject]) -> None:
    with pytest.raises(TypeError, match="is left to its subclasses"):
        kind()
