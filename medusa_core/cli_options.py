"""What the commands share: options that name a model, defaults and help read from the configuration classes, progress.

Knows nothing of what a command does.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Generator, Hashable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from medusa_core.config import DEVICES, DTYPES, ModelConfig
from medusa_core.events import Event, Progress

T = TypeVar("T")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --dtype, --device and --cache."""
    default = defaults(ModelConfig)
    parser.add_argument(
        "--model", default=default["model"], help=f"{field_help(ModelConfig, 'model')} (default: %(default)s)"
    )
    parser.add_argument("--dtype", choices=DTYPES, default=default["dtype"], help="precision (default: %(default)s)")
    parser.add_argument(
        "--device", choices=DEVICES, default=default["device"], help="where to run (default: %(default)s)"
    )
    parser.add_argument("--cache", type=Path, help="the library: folder of models (default: the user's cache)")


def defaults(config: type[Any]) -> dict[str, Any]:
    """The default of every field of a configuration class."""
    return {field.name: field.default for field in dataclasses.fields(config)}


def field_help(config: type[Any], name: str) -> str:
    """The comment beside a field of a configuration class: it says there, once, what the option means.

    "" where the source is not there to be read, as in a packaged program.
    """
    found = re.search(rf"^    {name}: .*  # (.+)$", _source(cast(Hashable, config)), re.MULTILINE)
    return found.group(1).replace("%", "%%") if found else ""


@cache
def _source(config: Any) -> str:
    """Of a class: looking for it takes longer than all else that a parser is built of."""
    try:
        return inspect.getsource(config)
    except OSError:
        return ""


def finish(work: Generator[Event, None, T]) -> T:
    """Run a long operation, its progress on one line of a terminal; returns what it returns."""
    terminal = sys.stderr.isatty()
    while True:
        try:
            event = next(work)
        except StopIteration as stop:
            if terminal:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            result: T = stop.value
            return result
        if terminal and isinstance(event, Progress):
            print(f"\r\x1b[K{progress_line(event)}", end="", file=sys.stderr, flush=True)


def progress_line(event: Progress) -> str:
    """How far it has come, on one line; of a download also how fast and how long yet."""
    line = event.stage + (f" {event.done / event.total:.0%}" if event.total else "")
    rate = getattr(event, "rate", 0.0)
    if rate > 0 and event.total:
        left = (event.total - event.done) / rate
        line += f" of {event.total / 1e6:,.0f} MB, {rate / 1e6:.1f} MB/s, {left // 60:.0f}:{left % 60:02.0f} left"
    return line
