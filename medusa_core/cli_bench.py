"""`python -m medusa_core bench`: how fast it is, beside other programs and other settings, on the same prompts.

Knows nothing of how anything is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core import hub
from medusa_core.cli_bench_report import ablation_lines, comparison_lines, write_plots
from medusa_core.cli_bench_systems import make_systems
from medusa_core.cli_decoding import add_decoding_options, decoding_config, model_config, require_heads, uses_heads
from medusa_core.cli_options import defaults, field_help, finish
from medusa_core.config import OTHER_SYSTEMS, OWN_SYSTEMS, BenchConfig, DecodingConfig
from medusa_core.errors import ConfigError, MedusaError
from medusa_core.opening import open_chat
from medusa_core.prompt_file import read_prompts

if TYPE_CHECKING:
    from medusa_core.bench.ablate import Setting
    from medusa_core.bench.records import BenchPrompt
    from medusa_core.bench.runner import Bench, System
    from medusa_core.chat import Chat

_NUMBERS = ("limit", "max_new_tokens", "runs", "warm_up")
_PROMPTS = "bench_prompts.jsonl"


def add_bench(commands: Any) -> None:
    """Add the command to the program's commands."""
    parser = commands.add_parser(
        "bench",
        help="measure how fast replies are, beside other programs",
        description="Let several systems answer the same prompts in turn, and compare. Ctrl-C keeps what was measured.",
    )
    parser.set_defaults(run=_bench)
    parser.add_argument(
        "--prompts",
        type=Path,
        help="file of prompts, a JSON object a line with prompt, turns or messages "
        "(default: sixteen of the project's own)",
    )
    parser.add_argument(
        "--systems",
        default=",".join(defaults(BenchConfig)["systems"]),
        metavar="NAME,NAME",
        help=f"{field_help(BenchConfig, 'systems')}; of {', '.join((*OWN_SYSTEMS, *OTHER_SYSTEMS))} "
        "(default: %(default)s)",
    )
    for name in _NUMBERS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            default=defaults(BenchConfig)[name],
            help=f"{field_help(BenchConfig, name)} (default: %(default)s)",
        )
    parser.add_argument("--forget", action="store_true", help=field_help(BenchConfig, "forget"))
    parser.add_argument(
        "--ablate",
        action="store_true",
        help="compare settings of this program instead of systems: trees, heads, thresholds, drafters, batches",
    )
    parser.add_argument("--gguf", type=Path, help="file that llama.cpp runs (default: the default model's own)")
    parser.add_argument("--json", type=Path, help="write everything to this file; plots of --ablate stand beside it")
    add_decoding_options(parser)


def _bench(options: argparse.Namespace) -> int:
    systems = tuple(name.strip() for name in options.systems.split(",") if name.strip())
    config = BenchConfig(systems=systems, forget=options.forget, **{name: getattr(options, name) for name in _NUMBERS})
    decoding = decoding_config(options, config.max_new_tokens, explain=False)
    file = read_prompts(options.prompts or hub.resources_folder() / _PROMPTS)
    _check_place(options.json)
    headed = options.ablate or any(_needs_heads(name, options.drafter) for name in systems)
    chat = finish(open_chat(model_config(options, headed=headed), options.cache or hub.default_cache()))
    require_heads(chat, options, headed=headed)
    from medusa_core.bench.prompts import bench_prompts

    prompts = bench_prompts(
        file,
        chat.text,
        limit=config.limit,
        max_new_tokens=config.max_new_tokens,
        context_size=chat.info.context_size,
    )
    if options.ablate:
        return _ablate(chat, prompts, config, decoding, options)
    return _compare(chat, prompts, config, decoding, options)


def _needs_heads(system: str, drafter: str) -> bool:
    return uses_heads(drafter) if system == "ours" else system in ("hybrid", "medusa")


def _check_place(path: Path | None) -> None:
    """Better now than when the figures are there."""
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigError(f"--json {path} cannot be written: {'it is a folder' if path.is_dir() else 'no such folder'}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ConfigError(f"--json {path} cannot be written: permission denied")


def _compare(
    chat: Chat,
    prompts: Sequence[BenchPrompt],
    config: BenchConfig,
    decoding: DecodingConfig,
    options: argparse.Namespace,
) -> int:
    from medusa_core.bench.runner import Bench

    systems, notes = make_systems(chat, prompts, config, decoding, options)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    bench = Bench(systems, prompts, config)
    report = _Report(chat, bench, systems, config, decoding, prompts, notes, options)
    status = _run(bench, report)
    print("\n".join(comparison_lines(report.made)))
    report.say_where()
    return status


def _run(bench: Bench, report: _Report) -> int:
    """Measure; whatever ends it, what was measured is written."""
    try:
        finish(bench.run())
    except KeyboardInterrupt:
        report.make()
        print("\ninterrupted; this is what was measured until then", file=sys.stderr)
        return 130
    except MedusaError:
        report.make()
        raise
    report.make()
    return 0


class _Report:
    """Everything that is written; `make` works it out and writes it."""

    def __init__(
        self,
        chat: Chat,
        bench: Bench,
        systems: Sequence[System],
        config: BenchConfig,
        decoding: DecodingConfig,
        prompts: Sequence[BenchPrompt],
        notes: Sequence[str],
        options: argparse.Namespace,
    ) -> None:
        from medusa_core.bench.machine import describe_machine

        self._bench, self._systems, self._notes, self._path = bench, systems, notes, options.json
        self._machine = {**describe_machine(), "dtype": chat.info.dtype, "device": chat.info.device}
        self._config = {
            **asdict(config),
            "decoding": asdict(decoding),
            "acceptance": type(decoding.acceptance).__name__,
            "model": chat.info.name,
            "heads": chat.info.heads_name,
            "prompts": str(options.prompts or _PROMPTS),
            "prompts_count": len(prompts),
        }
        self.made: dict[str, Any] = {}

    def make(self, **more: Any) -> None:
        """The report of what was measured so far."""
        from medusa_core.bench.report import bench_report

        report = bench_report(
            self._bench.compared(),
            {system.name: system.about for system in self._systems},
            complete=self._bench.complete,
            config=self._config,
            machine=self._machine,
            notes=self._notes,
        )
        self.made = {**report, **more}
        if self._path is not None:
            part = self._path.with_name(self._path.name + ".part")
            part.write_text(json.dumps(self.made, indent=1) + "\n", encoding="utf-8")
            part.replace(self._path)

    def say_where(self) -> None:
        """Where it was written, if it was."""
        if self._path is not None:
            print(f"\nWritten to {self._path}")


def _ablate(
    chat: Chat,
    prompts: Sequence[BenchPrompt],
    config: BenchConfig,
    decoding: DecodingConfig,
    options: argparse.Namespace,
) -> int:
    from medusa_core.bench.ablate import settings
    from medusa_core.bench.runner import Bench

    compared = settings(chat, decoding)
    systems = [setting.system for setting in compared]
    bench = Bench(systems, prompts, config)
    report = _Report(chat, bench, systems, config, decoding, prompts, (), options)
    status = _run(bench, report)
    ablations = _ablations(chat, bench, compared, prompts, batches=status == 0)
    report.make(ablations=ablations)
    print("\n".join(ablation_lines(ablations)))
    if options.json is not None:
        for path in write_plots(ablations, options.json):
            print(f"Plotted: {path}")
    report.say_where()
    return status


def _ablations(
    chat: Chat, bench: Bench, compared: Sequence[Setting], prompts: Sequence[BenchPrompt], *, batches: bool
) -> dict[str, Any]:
    """The figures by ablation; `batches`: time passes of many rows too."""
    from medusa_core.backbone.cost import cost_key, measure
    from medusa_core.bench.ablate import CONTEXT, batch_gains, batch_rows, gain_ends, rows

    found: dict[str, Any] = dict(rows(compared, bench.replies, bench.answers, prompts, chat.backbone))
    if batches:
        key = cost_key(chat.backbone, chat.info.dtype, "batches")
        wanted = batch_rows(chat.info.context_size)
        cost = finish(measure(chat.backbone, None, key, rows=wanted, contexts=(CONTEXT,)))
        gains = batch_gains(cost, found.get("tree", ()))
        passes = dict(zip(cost.rows, cost.passes[-1], strict=True))
        found["batch"] = {"pass_seconds": passes, "gains": gains, "gain_ends_at": gain_ends(gains)}
    return found
