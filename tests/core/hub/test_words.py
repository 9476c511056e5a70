"""Messages of this room are shown in the window too, so none speaks of what is typed on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from medusa_core import hub

ROOM = sorted(Path(hub.__file__).parent.glob("*.py"))
TYPED = re.compile(r"(?<![\w-])--[a-z]|\bmodels (get|import|list)\b|python -m")


def texts(path: Path) -> Iterator[str]:
    """Every text in the code but for those that describe it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.value


@pytest.mark.parametrize("path", ROOM, ids=lambda path: path.stem)
def test_no_message_speaks_of_the_command_line(path: Path) -> None:
    assert [text for text in texts(path) if TYPED.search(text)] == []


def test_there_is_something_to_look_at() -> None:
    assert len(ROOM) > 10
    assert sum(1 for path in ROOM for _ in texts(path)) > 300
