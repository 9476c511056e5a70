"""The check of everything that needs a GPU, in one script: python tests/gpu/check.py --out gpu.json

Runs all of it outside the main thread, as the app does; needs torch, transformers, safetensors and tokenizers. Each
section stands alone: one that fails is recorded, and the next begins. Without a GPU it says so and ends well, unless
--cpu-dry-run asks for all sections in tiny sizes on the CPU. Knows nothing of tests elsewhere.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
HEADS = HERE.parents[1] / "resources" / "heads" / "default"
SECTIONS = (
    ("exactness", "machine"),
    ("exactness", "recorded_equals_computed"),
    ("exactness", "equals_transformers"),
    ("exactness", "replies_are_the_same"),
    ("exactness", "waits_of_a_step"),
    ("exactness", "memory_comes_back"),
    ("exactness", "heads_learn"),
    ("loading", "quantized_models"),
    ("loading", "spread_over_gpus"),
    ("speed", "tokens_per_second"),
    ("speed", "pass_times"),
    ("speed", "pass_times_in_nf4"),
)


def say(text: str) -> None:
    """Progress, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(options: argparse.Namespace, found: dict[str, Any]) -> None:
    """All sections; the file is written after each."""
    sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
    started = time.monotonic()
    for module, name in SECTIONS:
        if time.monotonic() - started > options.limit:
            found[name] = {"failed": f"not begun: {options.limit:.0f} s are over"}
            continue
        say(f"{time.monotonic() - started:6.1f} s  {name}")
        try:
            found[name] = section(module, name, options, found)
        except Exception as error:  # noqa: BLE001  # one failure must not lose the rest
            say(traceback.format_exc())
            found[name] = {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    say(f"{time.monotonic() - started:6.1f} s  done")


def section(module: str, name: str, options: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    """Imported here, so that what is missing on the machine fails one section only."""
    subjects = importlib.import_module("subjects")
    dry = options.cpu_dry_run
    device = torch.device("cpu" if dry else "cuda:0")
    check = subjects.Check(device, dry, None if dry else options.model, options.heads, found)
    try:
        facts: dict[str, Any] = getattr(importlib.import_module(module), name)(check)
    finally:
        subjects.free(check)
    return facts


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 where everything held, or where there is nothing to check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="the file of results")
    parser.add_argument("--model", type=Path, help="the default model's folder; without it, a random one of its shape")
    parser.add_argument("--heads", type=Path, default=HEADS, help="heads for --model")
    parser.add_argument("--limit", type=float, default=400.0, help="seconds after which no further section begins")
    parser.add_argument("--cpu-dry-run", action="store_true", help="all sections on the CPU, in tiny sizes")
    options = parser.parse_args(arguments)
    if not options.cpu_dry_run and not torch.cuda.is_available():
        say("There is no CUDA GPU here, so there is nothing to check.")
        return 0
    results: dict[str, Any] = {}
    thread = threading.Thread(target=run, args=(options, results))  # as the app's worker
    thread.start()
    thread.join()
    failed = [name for name, facts in results.items() if "failed" in facts]
    say(f"failed: {', '.join(failed)}" if failed else "everything held")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
