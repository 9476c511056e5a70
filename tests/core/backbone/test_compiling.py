"""Compiled kernels are kept for the next start, and never taken for those of another text."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from medusa_core.backbone import compiling

ROOM = Path(compiling.__file__).parent


def test_every_kernel_file_is_part_of_the_build() -> None:
    """What is compiled, and all that it imports from beside it."""
    compiled = {path.stem for path in ROOM.glob("*.py") if "@compiled" in path.read_text(encoding="utf-8")}
    assert {"kernels", "attention", "int8_pass", "products", "picking_kernel"} <= compiled
    read, left = set(), {*compiled, "compiling"}
    while left:
        read.add(name := left.pop())
        tree = ast.parse((ROOM / f"{name}.py").read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        beside = {i.module.rpartition(".")[2] for i in imports if str(i.module).startswith("medusa_core.backbone.")}
        beside |= {alias.name for i in imports if i.module == "medusa_core.backbone" for alias in i.names}
        left |= beside - read
    assert {"loops", "fetching", "rotation"} <= read
    assert read <= set(compiling._SOURCES)


def test_another_text_is_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_SOURCES", compiling._SOURCES[1:])
    assert compiling._build() != compiling.BUILD


def test_where_nothing_can_be_written_beside_the_kernels_they_are_kept_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, users = tmp_path / "room", tmp_path / "users"
    room.mkdir()
    (room / "__pycache__").write_text("a file where the folder would be", encoding="utf-8")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *_arguments, **_options: str(users))
    old = users / "kernels" / "room" / "kernels-of-yesterday"
    old.mkdir(parents=True)
    kept_in = compiling._kept_in.__wrapped__
    assert Path(kept_in(room)).parent == users / "kernels" / "room"
    assert not old.exists()
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *_arguments, **_options: str(room / "__pycache__"))
    assert kept_in(room) == ""


def test_any_change_of_another_room_or_of_the_backbones_kernels_is_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_in = compiling._kept_in.__wrapped__
    folders = [kept_in(tmp_path)]
    (tmp_path / "kernel.py").write_text("a", encoding="utf-8")
    folders.append(kept_in(tmp_path))
    (tmp_path / "kernel.py").write_text("b", encoding="utf-8")
    folders.append(kept_in(tmp_path))
    assert kept_in(tmp_path) == folders[-1]
    monkeypatch.setattr(compiling, "BUILD", "another")
    folders.append(kept_in(tmp_path))
    assert len(set(folders)) == len(folders)
    assert compiling._kept_in(ROOM).endswith(f"kernels-{compiling._build()}")


_PASS = """
import sys
sys.path.insert(0, {root!r})
import torch
from medusa_core.backbone import products
from medusa_core.backbone.int8 import Int8Backbone
from medusa_core.backbone.load import make_spec
from medusa_core.tiny import tiny_model, tiny_tokenizer
assert products.HERE == products.ANY
model = tiny_model("llama", context=512)
backbone = Int8Backbone(model, make_spec(model, tiny_tokenizer(), "tiny"))
with torch.inference_mode():
    cache = backbone.new_cache()
    hidden = backbone.forward(torch.arange(70), torch.arange(70), None, cache)
    tree = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    rows = backbone.forward(torch.tensor([1, 2, 3]), torch.tensor([70, 71, 71]), tree, cache)
    cache.crop(70)
    for token, position, row in ((1, 70, 0), (3, 71, 2)):
        alone = backbone.forward(torch.tensor([token]), torch.tensor([position]), None, cache)
        assert torch.equal(alone[0], rows[row])
print("exact", float(hidden.abs().mean()) > 0)
"""


@pytest.mark.parametrize("setting", [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_ENABLE_AVX": "0"}], ids=str)
def test_the_pass_runs_on_processors_that_can_do_little(setting: dict[str, str], tmp_path: Path) -> None:
    import os

    root = str(ROOM.parent.parent)
    environment = {**os.environ, **setting, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _PASS.format(root=root)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "exact True"
