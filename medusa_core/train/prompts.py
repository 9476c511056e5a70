"""Write prompts for a chat model, so that it can answer them itself and heads can be trained on its replies.

Topics and tasks are multiplied: a kind is drawn, then a template of it, then a value for every slot. The same seed
gives the same prompts in the same order. Knows nothing of any model, tokenizer or chat template.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from medusa_core.errors import ConfigError
from medusa_core.train import prompt_tasks as tasks
from medusa_core.train import prompt_topics as topics

MAX_PROMPTS = 100_000
"""Most distinct prompts one call gives; beyond it the same wording would return too often to teach anything."""

WISH_SHARE = 0.4
SLOT = re.compile(r"\[([A-Za-z]+)\d?(?::(\d+)-(\d+))?\]")


class Prompt(NamedTuple):
    """A prompt and the kind of task it sets (a key of `prompt_tasks.KINDS`)."""

    kind: str
    text: str


def _union(*fields: str) -> tuple[str, ...]:
    return tuple(topic for field in fields for topic in topics.FIELDS[field])


BANKS: Mapping[str, Sequence[str]] = {
    **topics.FIELDS,
    "topic": _union(*topics.FIELDS),
    "stem": _union("science", "mathematics", "technology", "nature"),
    "humanities": _union("history", "arts", "society", "thought"),
    "everyday": _union("cooking", "travel", "health", "work", "sport", "family", "finance", "home"),
    "audience": topics.AUDIENCES,
    "tone": topics.TONES,
    "role": topics.ROLES,
    "object": topics.OBJECTS,
    "animal": topics.ANIMALS,
    "setting": topics.SETTINGS,
    "form": topics.FORMS,
    "language": topics.LANGUAGES,
    "target": topics.TARGETS,
    "name": topics.NAMES,
    "city": topics.CITIES,
    "weekday": topics.WEEKDAYS,
    "month": topics.MONTHS,
    "goods": topics.GOODS,
    "venue": topics.VENUES,
    "event": topics.EVENTS,
    "product": topics.PRODUCTS,
    "trade": topics.TRADES,
    "program": topics.PROGRAMS,
    "project": topics.PROJECTS,
    "snippet": topics.SNIPPETS,
}


def generate(count: int, seed: int) -> Iterator[str]:
    """`count` distinct prompts, mixed over all kinds; raises ConfigError at once if that many cannot be made."""
    return (prompt.text for prompt in generate_labelled(count, seed))


def generate_labelled(count: int, seed: int) -> Iterator[Prompt]:
    """As `generate`, each prompt with its kind."""
    if not 0 <= count <= MAX_PROMPTS:
        raise ConfigError(f"{count} prompts asked for, but between 0 and {MAX_PROMPTS} can be written; ask for fewer.")
    return _distinct(count, random.Random(seed))


def followup(seed: int) -> str:
    """A second turn of the user that fits after any reply."""
    return random.Random(seed).choice(tasks.FOLLOWUPS)


def _distinct(count: int, rng: random.Random) -> Iterator[Prompt]:
    kinds = tuple(tasks.KINDS)
    seen: set[str] = set()
    while len(seen) < count:
        prompt = _draw(rng.choice(kinds), rng)
        if prompt.text not in seen:
            seen.add(prompt.text)
            yield prompt


def _draw(kind: str, rng: random.Random) -> Prompt:
    template = rng.choice(tasks.KINDS[kind])
    if "[passage]" in template:
        template = template.replace("[passage]", _passage(rng))
    if kind in tasks.WISHES and rng.random() < WISH_SHARE:
        template = f"{template} {rng.choice(tasks.WISHES[kind])}"
    return Prompt(kind, _fill(template, rng))


def _passage(rng: random.Random) -> str:
    """A passage whose slots are still open, so that a name in the task can differ from the names in the passage."""
    sentences = (rng.choice(place) for place in rng.choice(tasks.SCENES))
    return " ".join(sentence for sentence in sentences if sentence)


def _fill(template: str, rng: random.Random) -> str:
    chosen: dict[str, str] = {}

    def value(slot: re.Match[str]) -> str:
        word, low, high = slot.groups()
        key = slot.group().lower()
        if key not in chosen:
            if low is not None:
                chosen[key] = str(rng.randint(int(low), int(high)))
            else:
                taken = set(chosen.values())
                chosen[key] = rng.choice([entry for entry in BANKS[word.lower()] if entry not in taken])
        filled = chosen[key]
        return filled[0].upper() + filled[1:] if word[0].isupper() else filled

    return SLOT.sub(value, template)
