"""What is said of a training is read in a window too: it names no options of the command line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import medusa_core.train

ROOM = Path(medusa_core.train.__file__).parent
ONLY_FROM_THE_COMMAND_LINE = {"joint.py", "medusa2.py"}


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.name)
def test_no_message_names_an_option(path: Path) -> None:
    if path.name in ONLY_FROM_THE_COMMAND_LINE:
        return
    texts = [node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and ("(--" in text or " --" in text)]
