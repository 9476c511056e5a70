"""The shelf's words: how things are described and named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app import durations
from app.shelf import Offer, Shelf, Thing, Wanted, free_name, offer_facts, thing_facts
from medusa_core.hub.catalogue import read_catalogue
from medusa_core.hub.library import Installed

LIBRARY = Path("models")


def installed(name: str, kind: str = "model") -> Installed:
    folder = LIBRARY / name
    return Installed(name, folder, kind, 720_000_000, "mit", "bf16", None, "hub", name)  # type: ignore[arg-type]


MODEL = Thing(installed("Maker/Tiny"), LIBRARY)
GOT = Thing(installed("Other/tiny-heads", "heads"), LIBRARY, base="Tiny")
MADE = Thing(installed("Tiny", "heads"), Path("heads"), trained_here=True, base="Tiny")
DEFAULT = Thing(installed("SmolLM2-135M-Instruct"), LIBRARY)


def test_what_the_settings_call_things() -> None:
    assert (MODEL.setting, DEFAULT.setting, MADE.setting) == ("Maker/Tiny", "default", str(MADE.entry.folder))
    assert Shelf((MODEL, GOT)).model("Tiny") is MODEL
    assert not Shelf((MADE,)).has("Tiny")


def test_the_facts_of_a_thing() -> None:
    assert thing_facts(MODEL) == "Model  ·  720 MB  ·  bf16  ·  mit  ·  not used yet"
    assert thing_facts(MADE).startswith("Heads, trained here, for Tiny  ·  720 MB")
    used = replace(MODEL.entry, last_used=datetime(2025, 3, 9, 12, tzinfo=UTC))
    assert thing_facts(replace(MODEL, entry=used)).endswith("last used 9 Mar 2025")


def test_the_facts_of_an_offer() -> None:
    entry = next(entry for entry in read_catalogue().models if entry.gated)
    words = offer_facts(Offer(entry, "published", ""))
    assert "does not fit this machine" in words
    assert "agree to terms" in words
    assert "heads: published" in words
    assert "fits" not in offer_facts(Offer(entry, "none yet"))
    assert "fits this machine in int8" in offer_facts(Offer(entry, "none yet", "int8"))


@pytest.mark.parametrize(
    ("wanted", "taken", "name"),
    [
        ("My model (new)", [], "My-model--new"),
        ("Tiny", ["Tiny", "Tiny-2"], "Tiny-3"),
        ("..", [], "model"),
        ("a..b", [], "a.b"),
        ("☃", [], "model"),
    ],
)
def test_an_import_gets_a_name_that_the_library_takes(wanted: str, taken: list[str], name: str) -> None:
    assert free_name(wanted, taken) == name


def test_a_gguf_file_is_named_after_itself() -> None:
    assert Wanted("Maker/Tiny-GGUF", "tiny-Q4.gguf").name == "Maker/tiny-Q4"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min"), (40_000, "11 h"),
     (260_000, "3 days")],
)  # fmt: skip
def test_lengths_of_time(seconds: float, words: str) -> None:
    assert durations.in_words(seconds) == words
