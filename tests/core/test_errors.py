"""The exception tree: what the docstring draws is what the classes are."""

from __future__ import annotations

import inspect
import re

from medusa_core import errors

_LINE = re.compile(r"^(?P<branch>[ │├└─]*)(?P<name>[A-Z]\w+)(?:\s+\((?P<built_in>\w+)\))?")


def drawn() -> dict[str, tuple[str, ...]]:
    """Name -> names of its bases, read off the drawing."""
    bases: dict[str, tuple[str, ...]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = _LINE.match(line)
        if not match or not line.startswith("    "):
            continue
        indent = len(match["branch"])
        while above and above[-1][0] >= indent:
            above.pop()
        parent = above[-1][1] if above else "Exception"
        bases[match["name"]] = (parent, match["built_in"]) if match["built_in"] else (parent,)
        above.append((indent, match["name"]))
    return bases


def test_the_drawing_is_the_classes() -> None:
    classes = {
        name: tuple(base.__name__ for base in kind.__bases__)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    }
    assert len(classes) > 5
    assert drawn() == classes


def test_every_class_is_a_medusa_error_and_says_what_it_is() -> None:
    for name in drawn():
        kind = getattr(errors, name)
        assert issubclass(kind, errors.MedusaError)
        assert kind.__doc__


def test_an_errors_message_is_its_text() -> None:
    """OSError and its kin rewrite what they are given; a sentence must come out as it went in."""
    for name in drawn():
        assert str(getattr(errors, name)("No room on the disk: 3 GB needed.")) == "No room on the disk: 3 GB needed."
