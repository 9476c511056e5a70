"""`python -m medusa_core models ...`: the library of models from the command line. Parses, calls, prints.

Knows nothing of how models are got, listed or removed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core import hub
from medusa_core.cli_options import defaults, finish
from medusa_core.config import DEVICES, DTYPES, HubConfig, ModelConfig
from medusa_core.errors import DoesNotFit, FileNotChosen, LibraryError
from medusa_core.hub.address import MAIN, read_address

if TYPE_CHECKING:
    from medusa_core.hub.download import Unfinished
    from medusa_core.hub.library import Installed

_TRUE = ("1", "on", "yes", "true")


def add_models(commands: Any) -> None:
    """`models` with its commands."""
    parser = commands.add_parser("models", help="get, list, check and remove models", description="The library.")
    inner = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(inner, "list", _list, "what is in the library, and downloads that were broken off")
    get = _add(inner, "get", _get, "download a model, or heads; a broken off download goes on")
    get.add_argument("name", metavar="ORG/NAME", help="ORG/NAME, ORG/NAME@REVISION, or a page's address on the Hub")
    get.add_argument("--revision", default="", help="branch, tag or commit (default: as in the name, else main)")
    get.add_argument("--file", default="", metavar="X.gguf", help="of a repository of GGUF files: the one to take")
    get.add_argument("--anyway", action="store_true", help="also where it does not fit into this machine's memory")
    _add_fit_options(get)
    bring = _add(inner, "import", _import, "copy a model's or heads' folder into the library, or convert a GGUF file")
    bring.add_argument("source", type=Path, help="a folder, a .gguf file, or a file of published heads")
    bring.add_argument("--name", default="", help="what to call it: NAME or ORG/NAME (default: as it is called)")
    remove = _add(inner, "remove", _remove, "remove a model, heads, or a download that was broken off")
    remove.add_argument("name", help="as `models list` shows it")
    check = _add(inner, "check", _check, "compare a model with what arrived, and read its headers")
    check.add_argument("name", nargs="?", help="as `models list` shows it (default: all of them)")
    _add_fit_options(_add(inner, "catalogue", _catalogue, "models worth having, whether they fit, and their heads"))


def hub_config() -> HubConfig:
    """The Hub as the environment names it: HF_ENDPOINT, HF_HUB_OFFLINE, and the token that its own tools keep."""
    from medusa_core.hub.client import saved_token

    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE
    endpoint = os.environ.get("HF_ENDPOINT", "").strip() or defaults(HubConfig)["endpoint"]
    return HubConfig(endpoint=endpoint, offline=offline, token="" if offline else saved_token())


def _add(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text.capitalize() + ".")
    parser.set_defaults(run=run)
    parser.add_argument("--cache", type=Path, help="the library: folder of models (default: the user's cache)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    default = defaults(ModelConfig)
    parser.add_argument(
        "--dtype", choices=DTYPES, default=default["dtype"], help="that must fit (default: %(default)s)"
    )
    parser.add_argument(
        "--device", choices=DEVICES, default=default["device"], help="where it must fit (default: %(default)s)"
    )
    parser.add_argument(
        "--context", type=int, default=default["context"], help="tokens of conversation that must fit (0: up to 4,096)"
    )


def _cache(options: argparse.Namespace) -> Path:
    cache: Path = options.cache or hub.default_cache()
    return cache.expanduser()


def _list(options: argparse.Namespace) -> int:
    from medusa_core.hub.download import unfinished
    from medusa_core.hub.library import installed, trained

    cache = _cache(options)
    found, waiting = installed(cache) + trained(cache), unfinished(cache)
    if options.json:
        plain = {"models": [_plain(each) for each in found], "unfinished": [_plain(each) for each in waiting]}
        return _print_json(plain)
    _print_table(("name", "kind", "size", "dtype", "licence", "last used"), [_row(each) for each in found])
    for each in found:
        if each.problem:
            print(f"{each.name}: {each.problem}")
    for broken in waiting:
        print(
            f"{broken.name}: {broken.done / max(broken.total, 1):.0%} of {_size(broken.total)} downloaded; go on with"
        )
        print(f"  python -m medusa_core models get {_words(broken)}")
    if not (found or waiting):
        print(f"There are no models at {cache} yet; `models catalogue` shows some.")
    return 0


def _words(broken: Unfinished) -> str:
    """What `get` has to be told to go on with it."""
    revision = f"@{broken.revision}" if broken.revision != MAIN else ""
    return f"{broken.repo}{revision}" + (f" --file {shlex.quote(broken.gguf)}" if broken.gguf else "")


def _row(entry: Installed) -> tuple[str, ...]:
    used = entry.last_used.astimezone().strftime("%Y-%m-%d") if entry.last_used else "never"
    kind = f"{entry.kind}, trained here" if entry.trained_here else entry.kind
    return entry.name, kind, _size(entry.size), entry.dtype or "-", entry.licence or "unknown", used


def _get(options: argparse.Namespace) -> int:
    from medusa_core.hub.client import HubClient
    from medusa_core.hub.download import download
    from medusa_core.hub.fitting import download_check
    from medusa_core.hub.library import find, is_heads

    ModelConfig(context=options.context)  # says what is wrong with it
    config = hub_config()
    address = read_address(options.name, config.endpoint)
    revision, gguf = options.revision or address.revision, options.file or address.file
    check = None if options.anyway else download_check(address.repo, options.dtype, options.device, options.context)
    with closing(HubClient(config)) as client:
        work = download(client, address.repo, _cache(options), revision=revision, gguf=gguf, check=check)
        try:
            with closing(work):  # interrupted, it is paused
                folder = finish(work)
        except DoesNotFit as error:
            raise DoesNotFit(f"{error} (--anyway downloads it nevertheless.)") from error
        except FileNotChosen as error:
            raise FileNotChosen(f"{error} (--file names it.)", error.files) from error
    name = folder.relative_to(_cache(options)).as_posix()
    if options.json:
        return _print_json(_plain(find(_cache(options), name)))
    use = "--heads" if is_heads(folder) else "--model"
    print(f"{name} is in the library; use it with: python -m medusa_core generate {use} {name} --prompt ...")
    return 0


def _import(options: argparse.Namespace) -> int:
    from medusa_core.hub.bring_in import import_model
    from medusa_core.hub.library import find

    work = import_model(options.source, _cache(options), options.name)
    try:
        with closing(work):
            folder = finish(work)
    except LibraryError as error:
        raise LibraryError(f"{error} (--name gives one.)") from error
    name = folder.relative_to(_cache(options)).as_posix()
    if options.json:
        return _print_json(_plain(find(_cache(options), name)))
    print(f"{name} is in the library, at {folder}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    from medusa_core.hub.library import remove

    freed = remove(_cache(options), options.name)
    if options.json:
        return _print_json({"name": options.name, "freed": freed})
    print(f"Removed {options.name}: {_size(freed)} are free again")
    return 0


def _check(options: argparse.Namespace) -> int:
    from medusa_core.hub.check import check
    from medusa_core.hub.library import find, installed, trained

    cache = _cache(options)
    wanted = [find(cache, options.name)] if options.name else installed(cache) + trained(cache)
    reports = [finish(check(each)) for each in wanted]
    if options.json:
        _print_json([{**asdict(report), "whole": report.whole} for report in reports])
    for report in [] if options.json else reports:
        compared = f"{report.files} files as they arrived" if report.files else "no checksums to compare with"
        print(f"{report.name}: " + (f"whole ({compared}, {report.tensors} tensors)" if report.whole else "damaged"))
        for problem in report.problems:
            print(f"  {problem}")
    return 0 if all(report.whole for report in reports) else 1


def _catalogue(options: argparse.Namespace) -> int:
    from medusa_core.hub.catalogue import heads_state, read_catalogue, trained_models
    from medusa_core.hub.fitting import fitting_precision
    from medusa_core.hub.library import trained_folder

    ModelConfig(context=options.context)
    catalogue = read_catalogue()
    shipped = trained_models(hub.resources_folder() / "heads")
    trained = trained_models(trained_folder(_cache(options)))
    rows = [
        {
            **asdict(entry),
            "fits": fitting_precision(entry, options.dtype, options.device, options.context),
            "heads_state": heads_state(entry, shipped=shipped, trained=trained),
        }
        for entry in catalogue.models
    ]
    if options.json:
        return _print_json(rows)
    _print_table(
        ("model", "download", "licence", "fits this machine", "heads", ""),
        [
            (
                row["model"],
                _size(row["size"]) if row["size"] else "-",
                row["licence"],
                f"in {row['fits']}" if row["fits"] else "no",
                row["heads_state"],
                row["note"],
            )
            for row in rows
        ],
    )
    for row in rows:
        for heads in row["heads"]:
            print(f"  heads for {row['model']}: {heads['repo']} ({heads['format']})")
    return 0


def _plain(found: Any) -> dict[str, Any]:
    """A record of ours as JSON can hold it."""
    record: dict[str, Any] = asdict(found)
    record["folder"] = str(record["folder"])
    if record.get("last_used") is not None:
        record["last_used"] = record["last_used"].isoformat(timespec="seconds")
    return record


def _print_json(found: Any) -> int:
    print(json.dumps(found, indent=2, ensure_ascii=False))
    return 0


def _print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    sys.stdout.flush()


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
