"""What is painted beneath the text of a reply: which steps wrote it, and which of them is outlined. Paints nothing."""

from __future__ import annotations

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
