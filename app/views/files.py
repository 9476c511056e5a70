"""Asking people for a file. Knows nothing of what is in it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget


def ask_where_to_save(parent: QWidget, title: str, name: str, kind: str, ending: str) -> Path | None:
    """A file to write, with its ending; None where the person thought better of it."""
    chosen, _kind = QFileDialog.getSaveFileName(parent, title, name + ending, f"{kind} (*{ending})")
    if not chosen:
        return None
    return Path(chosen if chosen.lower().endswith(ending) else chosen + ending)


def ask_what_to_open(parent: QWidget, title: str, kind: str, ending: str) -> Path | None:
    """A file to read; None where the person thought better of it."""
    chosen, _kind = QFileDialog.getOpenFileName(parent, title, "", f"{kind} (*{ending});;All files (*)")
    return Path(chosen) if chosen else None
