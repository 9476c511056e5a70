"""Asking where recordings and charts go or come from. Knows nothing of what is in a recording."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from app.theme import Theme
from app.views.chart_export import KINDS, export
from app.views.files import ask_where_to_save
from app.views.panel import DecodingPanel

_RECORDINGS = "Recordings (*.jsonl.gz *.jsonl);;All files (*)"


def ask_for_recording(parent: QWidget) -> Path | None:
    """A recording to open; None where the person thought better of it."""
    chosen, _kind = QFileDialog.getOpenFileName(parent, "Open a recording", "", _RECORDINGS)
    return Path(chosen) if chosen else None


def ask_where_to_record(parent: QWidget, name: str) -> Path | None:
    """A file for a recording."""
    return ask_where_to_save(parent, "Save this reply as a recording", name, "Recording", ".jsonl.gz")


def save_charts(parent: QWidget, panel: DecodingPanel, theme: Theme) -> str:
    """The page of charts on screen, or the figures behind it, into a file the person chooses; "" or what went wrong."""
    filters = ";;".join(KINDS.values())
    chosen, kind = QFileDialog.getSaveFileName(parent, "Export the charts", "decoding.png", filters)
    if not chosen:
        return ""
    path = Path(chosen)
    if path.suffix.lower() not in KINDS:
        ending = next((suffix for suffix, words in KINDS.items() if words == kind), ".png")
        path = path.with_name(path.name + ending)
    try:
        export(path, panel.pages.charts(), theme, panel.steps)
    except OSError as error:
        return f"The charts could not be saved in {path.parent}: {error.strerror or error}."
    return ""
