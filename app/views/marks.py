"""What is painted beneath a message's text: which steps wrote it, which is outlined, what is found. Paints nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from app.theme import Theme
from app.views.step_spans import StepSpans


@dataclass(slots=True)
class Marks:
    """One for all texts of a message."""

    theme: Theme
    steps: StepSpans = field(default_factory=StepSpans)
    tinted: bool = True
    held: int = -1  # the step that is outlined
    words: re.Pattern[str] | None = None  # that are looked for
