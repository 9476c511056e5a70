"""`python -m medusa_core calibrate`: measure heads on held-out replies, fit the tree, time the machine; and `expect`.

`expect` is the closed form alone and starts without PyTorch. Knows nothing of how anything is measured.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core import hub
from medusa_core.cli_options import add_model_options, defaults, field_help, finish
from medusa_core.cli_report import measured_report, report_lines, share_table
from medusa_core.config import CalibrateConfig, ExpectConfig, ModelConfig
from medusa_core.errors import CheckpointError, ConfigError
from medusa_core.hub.suiting import suiting_heads
from medusa_core.opening import open_chat
from medusa_core.theory import (
    effective_accuracy,
    expected_tokens_of_candidates,
    expected_tokens_per_pass,
    speed_up,
)

if TYPE_CHECKING:
    from medusa_core.calibrate.report import HeadsReport
    from medusa_core.chat import Chat
    from medusa_core.heads.checkpoint import HeadsCheckpoint

_OPTIONS = ("tokens", "nodes", "context")


def add_calibrate(commands: Any) -> None:
    """Add the command to the program's commands."""
    parser = commands.add_parser(
        "calibrate",
        help="measure heads on held-out replies and fit their tree to them and to this machine",
        description="Measure heads on replies they were not trained on, write the tree that follows (tree.json) and "
        "what was counted (statistics.json) beside them, and time passes of the model on this machine.",
    )
    parser.set_defaults(run=_calibrate)
    add_model_options(parser)
    parser.add_argument(
        "--heads",
        default=defaults(ModelConfig)["heads"],
        help=f"{field_help(ModelConfig, 'heads')} (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, help="folder for a calibrated copy of the heads (default: in place)")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of replies; of those the heads were trained on the held-out ones are taken (default: the model "
        "writes new ones, kept in the user's cache)",
    )
    for name in _OPTIONS:
        parser.add_argument(
            f"--{name}",
            type=int,
            default=defaults(CalibrateConfig)[name],
            help=f"{field_help(CalibrateConfig, name)} (default: %(default)s)",
        )
    parser.add_argument("--json", type=Path, help="write everything that is printed to this file too")


def add_expect(commands: Any) -> None:
    """Add the command to the program's commands."""
    parser = commands.add_parser(
        "expect",
        help="what to expect of heads of given accuracies, by the closed form",
        description="Tokens per pass, effective accuracies and speed-up by the closed forms, which assume that heads "
        "err independently. `calibrate` counts what really happens.",
    )
    parser.set_defaults(run=_expect)
    parser.add_argument("--accuracies", required=True, metavar="A,A", help=field_help(ExpectConfig, "accuracies"))
    shown = ",".join(map(str, defaults(ExpectConfig)["candidates"]))
    parser.add_argument(
        "--candidates",
        default=shown,
        metavar="N,N",
        help=f"{field_help(ExpectConfig, 'candidates')} (default: %(default)s)",
    )
    parser.add_argument(
        "--overhead",
        type=float,
        default=defaults(ExpectConfig)["overhead"],
        help=f"{field_help(ExpectConfig, 'overhead')} (default: %(default)s)",
    )


def _expect(options: argparse.Namespace) -> int:
    config = ExpectConfig(
        accuracies=_numbers(options.accuracies, "--accuracies", float),
        candidates=_numbers(options.candidates, "--candidates", int),
        overhead=options.overhead,
    )
    print("\n".join(_expect_lines(config)))
    return 0


def _numbers(text: str, option: str, kind: type[Any]) -> tuple[Any, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        example = "0.8,0.65" if kind is float else "1,2,3"
        raise ConfigError(f"{option} is {text!r}; it must be numbers with commas between them, {example}") from error


def _expect_lines(config: ExpectConfig) -> list[str]:
    heads = len(config.accuracies)
    tokens = expected_tokens_per_pass(config.accuracies)
    by_head = [
        (str(number), [effective_accuracy(accuracy, count) for count in config.candidates])
        for number, accuracy in enumerate(config.accuracies, 1)
    ]
    passes = [expected_tokens_of_candidates(config.accuracies, [count] * heads) for count in config.candidates]
    speeds = [speed_up(expected, config.overhead) for expected in passes]
    rows = (("tokens per pass", passes, ".3f"), ("speed-up", speeds, ".2f"))
    width, first = max(7, *(len(str(count)) + 1 for count in config.candidates)), len("tokens per pass")
    return [
        f"Tokens per pass: {tokens:.3f} ({heads + 1} with perfect heads)",
        f"Speed-up at {config.overhead:g} plain passes a step: {speed_up(tokens, config.overhead):.2f}",
        "",
        "Effective accuracy 1-(1-a)^s by guesses s of every head, and what a tree of all their combinations brings:",
        *share_table("head".ljust(first), [str(count) for count in config.candidates], by_head),
        *(f"{name:<{first}}" + "".join(f"{value:>{width}{form}}" for value in values) for name, values, form in rows),
    ]


def _calibrate(options: argparse.Namespace) -> int:
    config = CalibrateConfig(**{name: getattr(options, name) for name in _OPTIONS})
    cache, heads = options.cache or hub.default_cache(), options.heads
    if heads == hub.DEFAULT and options.model != hub.DEFAULT:
        of = finish(hub.model_folder(options.model, cache))
        heads = suiting_heads(of, of.resolve().name, cache)
    folder = hub.heads_folder(heads, cache)
    if folder is None:
        found = f"and none suit {options.model}" if options.heads == hub.DEFAULT else "and names no heads"
        raise ConfigError(f"--heads is {options.heads}, {found}; name the folder of those to calibrate")
    from medusa_core.calibrate.store import check_store, store, store_copy
    from medusa_core.train.room import check_out

    # Beside a file of published heads.
    place = folder if folder.is_dir() else folder.parent
    out = options.out or place
    check_store(place, out, hub.resources_folder())
    if options.out is not None:
        check_out(out)
    model = ModelConfig(model=options.model, heads=heads, dtype=options.dtype, device=options.device)
    chat = finish(open_chat(model, cache))
    if chat.checkpoint is None:
        raise CheckpointError(chat.info.heads_problem)
    from medusa_core.calibrate.statistics import calibrate_heads

    replies = _replies(chat, chat.checkpoint, options.data, config)
    statistics = calibrate_heads(
        chat.checkpoint.heads,
        ((hidden, tokens) for hidden, tokens, _ in replies),
        [temperature for _, _, temperature in replies],
        max_rank=config.max_rank,
        precision=chat.info.dtype,
    )
    tree = statistics.together.tree(config.nodes)
    if options.out is not None:
        store_copy(folder, out, chat.checkpoint, tree, statistics)
    else:
        store(place, out, tree, statistics)
    report = measured_report(chat, chat.checkpoint.heads, statistics, tree, config.context)
    _print_report(report, out, options.json)
    return 0


def _print_report(report: HeadsReport, out: Path, path: Path | None) -> None:
    print("\n".join(report_lines(report)))
    print(f"\ntree.json and statistics.json written to {out}")
    if path is not None:
        data = asdict(report)
        data["cost"] = json.loads(report.cost.to_json())
        path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _replies(chat: Chat, checkpoint: HeadsCheckpoint, data: Path | None, config: CalibrateConfig) -> list[Any]:
    """Held-out replies: hidden states, tokens and the temperature of each."""
    from medusa_core.train.held_out import held_out_replies, write_replies

    if data is None:
        name = f"{chat.info.name}-{chat.backbone.spec.fingerprint}-{chat.info.dtype}"
        data = hub.default_cache().parent / "calibration" / name
        finish(write_replies(chat.backbone, chat.text, data, checkpoint.training, config.tokens))
    elif not data.is_dir():
        raise ConfigError(f"--data {data}: there is no such folder; without --data the model writes replies itself")
    return held_out_replies(data, chat.backbone.spec, checkpoint.training, config.tokens)
