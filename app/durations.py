"""Lengths of time in words, as rough as people want them. Knows nothing of what takes so long."""

from __future__ import annotations


def in_words(seconds: float) -> str:
    """ "8 s", "12 min", "2 h 05 min", "3 days"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min" if hours < 10 else f"{hours} h"
    return f"{round(hours / 24)} days"
