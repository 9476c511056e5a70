"""One training a folder: also across processes, and nothing stays locked behind a killed one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from medusa_core.errors import ConfigError, TrainingError
from medusa_core.train.room import exclusive

ROOT = Path(__file__).resolve().parents[3]
HOLDER = """
import sys
from pathlib import Path
from medusa_core.train.room import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_training_is_refused_and_goes_on_after_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "data é"
    with exclusive(folder):
        with (
            pytest.raises(TrainingError, match=f"Another training is using {folder}.*another folder"),
            exclusive(folder),
        ):
            pass
        with exclusive(tmp_path / "other"):
            pass
    with exclusive(folder):
        pass


def test_the_lock_goes_with_a_failed_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="loss"), exclusive(tmp_path):
        raise ValueError("loss is NaN")
    with exclusive(tmp_path):
        pass


def test_only_the_first_process_of_a_training_takes_the_lock(tmp_path: Path) -> None:
    with exclusive(tmp_path, rank=0), exclusive(tmp_path, rank=1), exclusive(tmp_path, rank=7):
        pass


def test_another_thread_may_end_it(tmp_path: Path) -> None:
    held = exclusive(tmp_path)
    held.__enter__()
    ender = threading.Thread(target=held.__exit__, args=(None, None, None))
    ender.start()
    ender.join()
    with exclusive(tmp_path):
        pass


def test_a_killed_training_leaves_no_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TrainingError, match="Another training"), exclusive(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with exclusive(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"), exclusive(tmp_path / "file" / "data"):
        pass
