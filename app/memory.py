"""How much memory the app takes. Knows nothing of what takes it."""

from __future__ import annotations

import psutil


def resident_bytes() -> int:
    """Of this process, in main memory."""
    return int(psutil.Process().memory_info().rss)


def in_words(size: int) -> str:
    """A size for people: "812 MB", "1.4 GB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
