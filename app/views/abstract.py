"""Widgets with abstract methods: Qt's metaclass and Python's in one. Knows no particular widget."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from PySide6.QtCore import QObject


class AbstractQt(ABCMeta, type(QObject)):  # type: ignore[misc]
    """The metaclass of a QObject class that leaves methods to its subclasses."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        """Make an object; Qt's own metaclass would not notice that something is missing."""
        if missing := sorted(cls.__abstractmethods__):
            raise TypeError(f"{cls.__name__} cannot be made: {', '.join(missing)} is left to its subclasses")
        return super().__call__(*arguments, **options)
