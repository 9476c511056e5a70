"""The GPU check itself holds: every section runs on the CPU in tiny sizes, and without a GPU it ends well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("check.py")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_every_section_runs(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    done = run("--cpu-dry-run", "--out", str(out))
    found = json.loads(out.read_text())
    assert {name: facts["failed"] for name, facts in found.items() if "failed" in facts} == {}
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(found) == 12
    assert found["quantized_models"]["nf4, tokens a step of perfect guesses"] > 3
    assert set(found["replies_are_the_same"]) == {"none", "scripted", "heads", "hybrid"}


def test_without_a_gpu_there_is_nothing_to_check(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "gpu.json"))
    assert done.returncode == 0
    assert "no CUDA GPU" in done.stdout
    assert not (tmp_path / "gpu.json").exists()
