"""`python -m medusa_core train`: let a model write its training data, train Medusa heads on it, show how good they are.

Replies and checkpoints live in the user's cache, so an interrupted run goes on with the same command. Knows nothing
of how heads are trained.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from medusa_core import hub
from medusa_core.cli_options import add_model_options, defaults, field_help, finish
from medusa_core.cli_report import training_lines
from medusa_core.config import (
    HEADS_KINDS,
    HEADS_OUTPUTS,
    METHODS,
    MIXED_PRECISIONS,
    OWN_LOSSES,
    RAMPS,
    DistillConfig,
    Dtype,
    Medusa2Config,
    ModelConfig,
    TrainConfig,
)
from medusa_core.errors import ConfigError
from medusa_core.events import Event, Progress, TrainingStep
from medusa_core.opening import open_chat
from medusa_core.train.pace import Pace

if TYPE_CHECKING:
    from medusa_core.chat import Chat
    from medusa_core.heads.checkpoint import HeadsCheckpoint
    from medusa_core.prompt_file import FilePrompt

# option, configuration class, field
_OPTIONS: tuple[tuple[str, type[Any], str], ...] = (
    ("--tokens", DistillConfig, "tokens"),
    ("--self-written", DistillConfig, "self_written"),
    ("--from-file", DistillConfig, "from_file"),
    ("--multi-turn", DistillConfig, "multi_turn"),
    ("--temperatures", DistillConfig, "temperatures"),
    ("--places", DistillConfig, "places"),
    ("--heads", TrainConfig, "num_heads"),
    ("--layers", TrainConfig, "num_layers"),
    ("--draft-vocab", TrainConfig, "draft_vocab_size"),
    ("--epochs", TrainConfig, "epochs"),
    ("--batch", TrainConfig, "batch_positions"),
    ("--accumulate", TrainConfig, "accumulate"),
    ("--learning-rate", TrainConfig, "learning_rate"),
    ("--seed", TrainConfig, "seed"),
    ("--lora-rank", Medusa2Config, "rank"),
    ("--lora-alpha", Medusa2Config, "alpha"),
    ("--joint-epochs", Medusa2Config, "epochs"),
    ("--joint-batch", Medusa2Config, "batch_replies"),
    ("--joint-learning-rate", Medusa2Config, "learning_rate"),
    ("--head-rate", Medusa2Config, "head_rate"),
    ("--head-share", Medusa2Config, "head_share"),
)
_INTERRUPTED = "interrupted; the same command goes on from here"


def add_train(commands: Any) -> None:
    """Add the command to the program's commands."""
    parser = commands.add_parser(
        "train",
        help="train Medusa heads for a model, from nothing but the model",
        description="Train Medusa heads for a model, from nothing but the model: it writes replies, the heads learn "
        "to foresee them. Ctrl-C or a kill loses little: the same command goes on where it was.",
    )
    parser.set_defaults(run=_train)
    add_model_options(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the heads to")
    for option, config, name in _OPTIONS:
        _add_option(parser, option, config, name)
    _add_joint(parser)
    parser.add_argument(
        "--kind",
        choices=HEADS_KINDS,
        default=defaults(TrainConfig)["kind"],
        help=f"{field_help(TrainConfig, 'kind')} (default: %(default)s)",
    )
    parser.add_argument(
        "--mixed-precision",
        choices=MIXED_PRECISIONS,
        default=defaults(TrainConfig)["mixed_precision"],
        help=f"{field_help(TrainConfig, 'mixed_precision')} (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        choices=HEADS_OUTPUTS,
        default=defaults(TrainConfig)["output"],
        help=f"{field_help(TrainConfig, 'output')}; auto: one for rooted heads, the model's for the paper's, as other "
        "programs serve them (default: %(default)s)",
    )
    parser.add_argument(
        "--hard-labels",
        action="store_true",
        help="learn the token that came (default: the model's own distribution there, soft labels)",
    )
    parser.add_argument(
        "--prompts",
        type=Path,
        help="a file of your own prompts to be answered, one JSON object a line with prompt, turns or messages "
        "(default: none; --from-file is the share of prompts that come from it)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of replies and checkpoints (default: in the user's cache, one for each model and recipe of "
        "replies, so that asking for more tokens extends what is there)",
    )


def _add_joint(parser: argparse.ArgumentParser) -> None:
    """What concerns Medusa-2 alone and is not a number."""
    default = defaults(Medusa2Config)
    parser.add_argument(
        "--method",
        choices=METHODS,
        default=METHODS[0],
        help="medusa1: the heads learn, the model stays as it is; medusa2: then both learn together, the model through "
        "LoRA adapters saved beside the heads, and the --lora, --joint and --head options count (default: %(default)s)",
    )
    for option, name, choices in (("--ramp", "ramp", RAMPS), ("--own-loss", "own_loss", OWN_LOSSES)):
        shown = f"{field_help(Medusa2Config, name)} (default: %(default)s)"
        parser.add_argument(option, choices=choices, default=default[name], help=shown)
    parser.add_argument(
        "--lora-targets",
        type=lambda text: tuple(text.split(",")),
        default=default["targets"],
        metavar="NAME,NAME",
        help=f"linear layers that get adapters (default: {','.join(default['targets'])})",
    )
    parser.add_argument(
        "--no-warm-up", action="store_true", help="medusa2: do not train the heads alone before (for comparison)"
    )


def _joint(options: argparse.Namespace) -> Medusa2Config:
    return Medusa2Config(
        **_values(options, Medusa2Config),
        targets=options.lora_targets,
        ramp=options.ramp,
        own_loss=options.own_loss,
        warm_up=not options.no_warm_up,
    )


def _train_method(
    options: argparse.Namespace,
    chat: Chat,
    work: Path,
    data: DistillConfig,
    config: TrainConfig,
    file: list[FilePrompt],
) -> Generator[Event, None, HeadsCheckpoint]:
    """The training that --method names."""
    if options.method == METHODS[0]:
        from medusa_core.train.medusa1 import train_heads

        return train_heads(chat.backbone, chat.text, options.out, work, data, config, file, precision=chat.info.dtype)
    from medusa_core.train.medusa2 import Base, train_jointly

    folder = finish(hub.model_folder(options.model, options.cache or hub.default_cache()))
    base = Base(folder, cast(Dtype, chat.info.dtype.split()[0]))  # without the reason why it is not another
    return train_jointly(chat.backbone, chat.text, base, options.out, work, data, config, _joint(options), file)


def _add_option(parser: argparse.ArgumentParser, option: str, config: type[Any], name: str) -> None:
    default = defaults(config)[name]
    text = field_help(config, name)
    if isinstance(default, tuple):
        shown = ",".join(f"{value:g}" for value in default)
        parser.add_argument(option, type=_numbers, default=default, metavar="T,T", help=f"{text} (default: {shown})")
    else:
        metavar = option.removeprefix("--").upper()
        parser.add_argument(
            option, type=type(default), default=default, metavar=metavar, help=f"{text} (default: %(default)s)"
        )


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0,0.7") from error


def _train(options: argparse.Namespace) -> int:
    data = DistillConfig(**_values(options, DistillConfig), seed=_seed(options))
    config = TrainConfig(
        **_values(options, TrainConfig),
        kind=options.kind,
        mixed_precision=options.mixed_precision,
        output=options.output,
        soft_labels=not options.hard_labels,
    )
    _joint(options)  # wrong values are said before hours of work
    model = ModelConfig(model=options.model, heads=hub.NONE, dtype=options.dtype, device=options.device)
    from medusa_core.train.room import check_out
    from medusa_core.train.work import data_folder

    check_out(options.out)
    file = _prompts(options.prompts)
    from medusa_core.train import processes

    processes.enter(options.device)
    try:
        chat = finish(open_chat(model, options.cache or hub.default_cache()))
        work = options.data or data_folder(hub.default_cache().parent, chat.backbone.spec, data, file)
        if processes.is_main():
            print(
                f"Replies and checkpoints are kept in {work}. Ctrl-C interrupts; the same command goes on.", flush=True
            )
        checkpoint = _report(_train_method(options, chat, work, data, config, file))
    except KeyboardInterrupt:
        print(_INTERRUPTED, file=sys.stderr)
        return 130
    if processes.is_main():
        print("\n".join(training_lines(chat, checkpoint, options.out, options.model)))
    return 0


def _values(options: argparse.Namespace, config: type[Any]) -> dict[str, Any]:
    """The options' values that belong to a configuration class, by field."""
    return {
        name: getattr(options, option.removeprefix("--").replace("-", "_"))
        for option, owner, name in _OPTIONS
        if owner is config
    }


def _seed(options: argparse.Namespace) -> int:
    seed: int = options.seed
    if not 0 <= seed < 2**31:
        raise ConfigError(f"--seed is {seed}; it must lie between 0 and {2**31 - 1}")
    return seed


def _prompts(path: Path | None) -> list[FilePrompt]:
    from medusa_core.prompt_file import read_prompts

    return [] if path is None else read_prompts(path)


def _report(work: Generator[Event, None, HeadsCheckpoint]) -> HeadsCheckpoint:
    """Run the training, one line a report."""
    pace = Pace()
    while True:
        try:
            event = next(work)
        except StopIteration as stop:
            checkpoint: HeadsCheckpoint = stop.value
            return checkpoint
        if isinstance(event, Progress):
            print(_progress_line(event, pace.rate(event.unit, event.done)), flush=True)
        elif isinstance(event, TrainingStep):
            print(_step_line(event, pace.rate("steps", event.step)), flush=True)


def _progress_line(event: Progress, rate: float) -> str:
    parts = [f"{event.stage}: {event.done:,.0f} of {event.total:,.0f} {event.unit}".rstrip()]
    if rate > 0:
        parts.append(f"{rate:.0f} {event.unit}/s")
    return " · ".join(parts) + _time_left(event.total - event.done, rate)


def _step_line(event: TrainingStep, rate: float) -> str:
    line = f"Training: step {event.step:,} of {event.total_steps:,} · loss {event.loss:.4f}"
    if event.heads:
        line += " · top-1/top-5 " + " ".join(f"{fit.top1:.1%}/{fit.top5:.1%}" for fit in event.heads)
    return line + _time_left(event.total_steps - event.step, rate)


def _time_left(amount: float, rate: float) -> str:
    if rate <= 0 or amount <= 0:
        return ""
    minutes, seconds = divmod(round(amount / rate), 60)
    hours, minutes = divmod(minutes, 60)
    return f" · {hours}:{minutes:02}:{seconds:02} left" if hours else f" · {minutes}:{seconds:02} left"
