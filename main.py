"""Start the desktop app; parses arguments, nothing else. Knows nothing of Qt until it is sure there is a display."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parse = argparse.ArgumentParser(prog="medusa-chat", description="Chat with a local model; see how it decodes.")
    parse.add_argument("--profile", type=Path, metavar="DIR", help="keep settings and models under DIR")
    parse.add_argument(
        "--smoke-test", action="store_true", help="start, try what people do, start again, find the chat and exit"
    )
    parse.add_argument(
        "--screenshot", type=Path, metavar="FILE", help="with --smoke-test: save a picture of the window"
    )
    parse.add_argument(
        "--demo",
        nargs="?",
        const="",
        metavar="FILE",
        help="explore a recorded reply without any model; FILE: a recording, else one that came with the app",
    )
    parse.add_argument("--version", action="store_true", help="print the version and exit")
    return parse


def display_is_missing() -> bool:
    """Whether Qt would abort because there is no screen to draw on."""
    wanted = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    return sys.platform.startswith("linux") and not any(os.environ.get(name) for name in wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the app; the exit status."""
    parse = parser()
    given = parse.parse_args(arguments)
    if given.screenshot and not given.smoke_test:
        parse.error("--screenshot needs --smoke-test")
    if given.version:
        from importlib.metadata import version

        sys.stdout.write(f"medusa-chat {version('medusa-chat')}\n")
        return 0
    if display_is_missing():
        sys.stderr.write("There is no display to open a window on: set DISPLAY or WAYLAND_DISPLAY, or use xvfb-run.\n")
        return 2
    if given.demo is not None:
        from app.demo import run as run_demo

        return run_demo(Path(given.demo) if given.demo else None)
    from app.application import Options, run
    from medusa_core.cli_models import hub_config

    return run(Options(profile=given.profile, smoke_test=given.smoke_test, screenshot=given.screenshot, hub=hub_config))


if __name__ == "__main__":
    sys.exit(main())
