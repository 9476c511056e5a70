"""`python -m medusa_core convert`: heads of one format into another's. Knows nothing of what is in a file."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medusa_core import hub
from medusa_core.cli_options import finish
from medusa_core.errors import ConfigError

_STDOUT = Path("-")
_TARGETS = ("ours", "tgi", "vllm")
_DROPPABLE = ("pairs", "vocabulary")


def add_convert(commands: Any) -> None:
    """Add the command to the program's commands."""
    parser = commands.add_parser(
        "convert",
        help="heads of one format into another's: this program's, TGI/LoRAX or vLLM",
        description="Read heads of any format (this program's, Medusa v0.1, TGI/LoRAX, Medusa-2 full models, vLLM, "
        "Liger) and write them for another program. What the other format cannot hold is refused by name.",
    )
    parser.set_defaults(run=_convert)
    parser.add_argument("source", metavar="SRC", help='a folder or file of heads, or "default" or "paper"')
    parser.add_argument("target", metavar="DST", type=Path, help="the folder to write; it must not be there yet")
    parser.add_argument("--to", choices=_TARGETS, required=True, help="this program's format, TGI/LoRAX v2, or vLLM")
    parser.add_argument(
        "--model",
        help="'default' or the folder of the model that the heads belong to; needed where the heads' files do not say "
        "it, and for vLLM where they share the model's output head",
    )
    parser.add_argument(
        "--drop",
        action="append",
        choices=_DROPPABLE,
        default=[],
        help="leave out what the other format cannot hold: pairs (a correction of guesses), vocabulary (the limit to "
        "frequent tokens)",
    )
    parser.add_argument("--cache", type=Path, help="folder of converted models (default: the user's cache)")
    parser.add_argument(
        "--json",
        nargs="?",
        type=Path,
        const=_STDOUT,
        metavar="FILE",
        help="print JSON instead, or write it to this file too",
    )


def _convert(options: argparse.Namespace) -> int:
    cache = options.cache or hub.default_cache()
    source = hub.heads_folder(options.source, cache)
    if source is None:
        raise ConfigError(f"SRC is {options.source}, which names no heads; name a folder or file of heads")
    from medusa_core.heads.formats.convert import check_target, convert
    from medusa_core.heads.formats.model import open_model

    check_target(options.target)
    model = None
    if options.model is not None:
        folder = finish(hub.model_folder(options.model, cache))
        name = hub.DEFAULT_MODEL_NAME if options.model == hub.DEFAULT else folder.resolve().name
        model = open_model(folder, name)
    done = convert(source, options.target, options.to, model, options.drop)
    data = json.dumps({"to": options.to, "folder": str(options.target), **asdict(done)}, indent=2)
    if options.json == _STDOUT:
        print(data)
        return 0
    print(f"{done.source}\n-> {done.target}\nwritten to {options.target}, for {done.base or 'a model without a name'}")
    if done.dropped:
        print(f"left out: {', '.join(done.dropped)}")
    if not done.measured:
        print("Without statistics: `calibrate` measures the heads and fits their tree.")
    if options.json is not None:
        options.json.write_text(data + "\n", encoding="utf-8")
    return 0
