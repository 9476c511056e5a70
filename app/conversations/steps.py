"""The events of a reply as compressed lines of the event log, and back.

Knows nothing of the store.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from app.conversations.errors import StoreError
from medusa_core.errors import ConfigError
from medusa_core.events import Event, read_log, write_log

# What the lines have in common, so that a batch of one step compresses nearly as well as one of many. Part of the file
# format: saved steps cannot be read with any other.
_COMMON = (
    b'"unreached", "verdict": null, "text": "<0x0A>"}, "state": "root", "draft_probability": null, '
    b'"source": "recycling", "source": "lookup", "model_probability": 0.0, "state": "accepted", '
    b'"verdict": {"passed": true, "probability": null, "threshold": null, "entropy": null, "choice": null, '
    b'"choice_text": "", "drawn": null, "drawn_text": ""}, "text": " '
    b'{"event": "step", "index": 1, "nodes": [{"token_id": 1, "parent": 0, "depth": 0, "rank": 0, "source": "model", '
    b'"state": "rejected", "draft_probability": 0.1, "model_probability": null, "verdict": {"passed": false, '
    b'"probability": null, "threshold": null, "entropy": null, "choice": 1, "choice_text": " the", "drawn": null, '
    b'"drawn_text": ""}, "text": " the"}], "path": [0, 1], "token_ids": [1, 2], "context_tokens": 100, '
    b'"seconds": 0.01, "draft_seconds": 0.001, "verify_seconds": 0.009, "accept_seconds": 0.0001, "text": " the", '
    b'"spans": [[10, 14], [14, 16]], "note": ""}, {"token_id": 1, "parent": 0, "depth": 1, "rank": 1, '
    b'"source": "head", "state": "unreached", "draft_probability": 0.0, "model_probability": null, "verdict": null, '
    b'"text": " '
)


def pack(events: Iterable[Event]) -> bytes:
    """The events in about a tenth of their size as text."""
    compressor = zlib.compressobj(6, zdict=_COMMON)
    return compressor.compress("\n".join(write_log(events)).encode()) + compressor.flush()


def unpack(data: bytes) -> list[Event]:
    """What `pack` was given. Raises StoreError where the data is damaged or of a newer version."""
    decompressor = zlib.decompressobj(zdict=_COMMON)
    try:
        text = decompressor.decompress(data).decode()
        events = list(read_log(text.split("\n")))
    except (zlib.error, UnicodeDecodeError, ConfigError) as error:
        raise StoreError(f"The steps of this reply cannot be read ({error}); its text is not affected.") from error
    if not decompressor.eof:
        raise StoreError("The steps of this reply are cut short; its text is not affected.")
    return events
