"""The command line: `python -m medusa_core COMMAND`. Parses, calls the library, prints; decides nothing else.

Defaults come from the configuration classes, so that they stand in one place. Exit status: 0 done, 1 an error that
is said in one line on stderr, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from medusa_core import hub
from medusa_core.cli_bench import add_bench
from medusa_core.cli_calibrate import add_calibrate, add_expect
from medusa_core.cli_convert import add_convert
from medusa_core.cli_decoding import (
    add_decoding_options,
    decoding_config,
    model_config,
    no_heads,
    require_heads,
    uses_heads,
)
from medusa_core.cli_models import add_models
from medusa_core.cli_options import defaults, finish
from medusa_core.cli_train import add_train
from medusa_core.config import DecodingConfig
from medusa_core.errors import MedusaError, NotGotYet
from medusa_core.events import Event, Finished, Step, write_log
from medusa_core.model_info import ChatMessage
from medusa_core.opening import open_chat


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except NotGotYet as error:
        print(f"error: {error} (python -m medusa_core models get {error.repo})", file=sys.stderr)
        return 1
    except MedusaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone; Python would complain once more while flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m medusa_core", description="Decode with Medusa heads.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_generate(commands)
    add_train(commands)
    add_calibrate(commands)
    add_expect(commands)
    add_bench(commands)
    add_models(commands)
    add_convert(commands)
    return parser


def _add_generate(commands: Any) -> None:
    parser = commands.add_parser("generate", help="answer one prompt", description="Answer one prompt.")
    parser.set_defaults(run=_generate)
    parser.add_argument("--prompt", required=True, help="the user's message; '-' reads it from standard input")
    parser.add_argument("--system", help="a system message (default: the model's own)")
    add_decoding_options(parser)
    longest = defaults(DecodingConfig)["max_new_tokens"]
    parser.add_argument("--max-new-tokens", type=int, default=longest, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write every event to this file, one JSON line each")


def _generate(options: argparse.Namespace) -> int:
    headed = uses_heads(options.drafter)
    model = model_config(options, headed=headed)
    decoding = decoding_config(options, options.max_new_tokens, explain=options.json is not None)
    messages = _messages(options)
    with ExitStack() as stack:
        log = stack.enter_context(options.json.open("w", encoding="utf-8")) if options.json else None
        chat = finish(open_chat(model, options.cache or hub.default_cache()))
        require_heads(chat, options, headed=headed)
        finished = _stream(chat.reply(messages, decoding), log)
    adapted = " · answered by the model as the heads' adapters change it" if chat.info.adapted else ""
    print(_summary(finished) + adapted, file=sys.stderr)
    lacking = no_heads(chat, options) if headed else ""
    for note in filter(None, (chat.info.drafting_problem, chat.info.heads_note, lacking)):
        print(note, file=sys.stderr)
    return 0


def _messages(options: argparse.Namespace) -> list[ChatMessage]:
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    messages = [ChatMessage(role="system", content=options.system)] if options.system else []
    return [*messages, ChatMessage(role="user", content=prompt)]


def _stream(events: Iterator[Event], log: TextIO | None) -> Finished:
    """Print the text as it comes; returns the last event."""
    finished: Finished | None = None
    for event in events:
        if log is not None:
            log.writelines(line + "\n" for line in write_log([event]))
        if isinstance(event, Step):
            print(event.text, end="", flush=True)
        elif isinstance(event, Finished):
            finished = event
            print(event.tail, flush=True)
    assert finished is not None, "every reply ends with Finished"
    return finished


def _summary(finished: Finished) -> str:
    parts = [
        f"{finished.tokens} tokens in {finished.steps} steps ({finished.tokens_per_step:.2f} a step)",
        f"{finished.tokens_per_second:.1f} tokens/s",
    ]
    if finished.acceptance_per_head:
        rates = " / ".join(f"{rate:.0%}" for rate in finished.acceptance_per_head)
        parts.append(f"acceptance per head {rates}")
    return " · ".join(parts) + (f" · {finished.message}" if finished.message else "")
