"""What is said of work in the library: how far it is, what was written, what was found. Knows nothing of widgets."""

from __future__ import annotations

from app import durations
from app.memory import in_words
from app.shelf import Exported
from medusa_core.events import Progress
from medusa_core.hub.check import CheckReport
from medusa_core.hub.client import DownloadProgress

SEPARATOR = "  ·  "
_LEFT_OUT = {"pairs": "the correction by the token before", "vocabulary": "the limit to frequent tokens"}


def progress_words(event: Progress) -> str:
    """How far something is, how fast it goes, and how long it takes."""
    if event.unit != "bytes" or not event.total:
        return event.stage
    parts = [f"{in_words(round(event.done))} of {in_words(round(event.total))}"]
    if isinstance(event, DownloadProgress):
        if event.rate > 0:
            parts.append(f"{event.rate / 1e6:.1f} MB/s")
        if event.seconds_left is not None:
            parts.append(f"{durations.in_words(event.seconds_left)} left")
    return SEPARATOR.join([*parts, event.stage])


def exported_words(exported: Exported) -> str:
    """What was written where."""
    without = " and ".join(_LEFT_OUT[name] for name in exported.left_out)
    return f"Written to {exported.folder}{', without ' if without else ''}{without}."


def check_words(report: CheckReport) -> str:
    """What verifying found."""
    if not report.whole:
        return f"Damaged: {'; '.join(report.problems)}. Remove it and get it again."
    compared = f"{report.files} files as they arrived" if report.files else "no checksums to compare with"
    return f"Whole: {compared}, {report.tensors} tensors."
