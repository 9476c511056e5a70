"""How fast a training goes on and how long it still takes, from its own reports. Knows nothing of what is trained."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """How fast something goes on, measured from its first report: what was there before the start does not count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage, self._first, self._since = "", 0.0, 0.0

    def rate(self, stage: str, done: float) -> float:
        """Units a second since the first report of this stage; 0 where that is not known yet."""
        now = self._clock()
        if stage != self._stage:
            self._stage, self._first, self._since = stage, done, now
        return (done - self._first) / (now - self._since) if now > self._since else 0.0
