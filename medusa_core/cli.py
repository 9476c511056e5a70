"""The command line: `python -m medusa_core COMMAND`. Parses, calls the library, prints; decides nothing else.

Defaults come from the configuration classes, so that they stand in one place. Exit status: 0 done, 1 an error that
is said in one line on stderr, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from medusa_core import hub
from medusa_core.cli_calibrate import add_calibrate, add_expect
from medusa_core.cli_options import add_model_options, defaults, field_help, finish
from medusa_core.cli_train import add_train
from medusa_core.config import (
    Acceptance,
    DecodingConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TypicalAcceptance,
)
from medusa_core.errors import CheckpointError, MedusaError
from medusa_core.events import Event, Finished, Step, write_log
from medusa_core.model_info import ChatMessage
from medusa_core.opening import open_chat

if TYPE_CHECKING:
    from medusa_core.chat import Chat

_RULES: dict[str, type[Acceptance]] = {
    "greedy": GreedyAcceptance,
    "typical": TypicalAcceptance,
    "sampling": SamplingAcceptance,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
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
    return parser


def _add_generate(commands: Any) -> None:
    parser = commands.add_parser("generate", help="answer one prompt", description="Answer one prompt.")
    parser.set_defaults(run=_generate)
    decoding = defaults(DecodingConfig)
    parser.add_argument("--prompt", required=True, help="the user's message; '-' reads it from standard input")
    parser.add_argument("--system", help="a system message (default: the model's own)")
    add_model_options(parser)
    parser.add_argument(
        "--heads",
        default=defaults(ModelConfig)["heads"],
        help=f"{field_help(ModelConfig, 'heads')} (default: %(default)s)",
    )
    parser.add_argument("--drafter", choices=("medusa", "none"), default="medusa", help="who guesses ahead")
    parser.add_argument(
        "--nodes", type=int, default=decoding["nodes"], help="draft nodes a step at most (default: %(default)s)"
    )
    _add_acceptance(parser)
    parser.add_argument("--max-new-tokens", type=int, default=decoding["max_new_tokens"], help="(default: %(default)s)")
    parser.add_argument(
        "--seed",
        type=int,
        default=decoding["seed"],
        help=f"{field_help(DecodingConfig, 'seed')} (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, help="write every event to this file, one JSON line each")


def _add_acceptance(parser: argparse.ArgumentParser) -> None:
    """--accept, and every option of the rules; one that is not given keeps the default of the rule it belongs to."""
    parser.add_argument(
        "--accept",
        choices=tuple(_RULES),
        default="greedy",
        help="greedy: the model's own output; sampling: the model's own distribution, drawn from; typical: faster, "
        "approximate, nothing is drawn (default: %(default)s)",
    )
    names = dict.fromkeys(field.name for rule in _RULES.values() for field in dataclasses.fields(rule))
    for name in names:
        owners = [word for word, rule in _RULES.items() if name in defaults(rule)]
        rule = _RULES[owners[-1]]
        default = defaults(rule)[name]
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(default),
            help=f"{' and '.join(owners)}: {field_help(rule, name)} (default: {default})",
        )


def _generate(options: argparse.Namespace) -> int:
    heads = options.heads if options.drafter == "medusa" else hub.NONE
    model = ModelConfig(model=options.model, heads=heads, dtype=options.dtype, device=options.device)
    decoding = DecodingConfig(
        acceptance=_acceptance(options),
        drafting=options.drafter == "medusa",
        nodes=options.nodes,
        max_new_tokens=options.max_new_tokens,
        seed=options.seed,
        explain=options.json is not None,
    )
    messages = _messages(options)
    with ExitStack() as stack:
        log = stack.enter_context(options.json.open("w", encoding="utf-8")) if options.json else None
        chat = finish(open_chat(model, options.cache or hub.default_cache()))
        _require_heads(chat, options)
        finished = _stream(chat.reply(messages, decoding), log)
    print(_summary(finished), file=sys.stderr)
    return 0


def _require_heads(chat: Chat, options: argparse.Namespace) -> None:
    """Heads asked for on the command line must be there: going on without them would answer another question."""
    if options.drafter == "medusa" and options.heads != hub.NONE and chat.info.heads_problem:
        raise CheckpointError(f"{chat.info.heads_problem} (--heads none goes on without heads.)")


def _acceptance(options: argparse.Namespace) -> Acceptance:
    rule = _RULES[options.accept]
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(rule)}
    return rule(**{name: value for name, value in given.items() if value is not None})


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
