"""Convert the default model and load it once, so that the first window need not wait; prints how far it is.

Loading it for the first time measures what int8 needs and compiles the kernels.

Runs inside the virtual environment. Knows nothing of how that came to be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from pathlib import Path

from medusa_core import hub
from medusa_core.backbone.load import load_backbone
from medusa_core.errors import MedusaError
from medusa_core.events import Progress


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=Path, help="keep the model under this folder instead of the user's cache")
    cache = hub.default_cache(parser.parse_args().profile)
    preparing = _prepare(cache)
    try:
        for progress in preparing:
            print(f"{progress.stage} ({progress.done:.0f}{progress.unit or f' of {progress.total:.0f}'})", flush=True)
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        preparing.close()
        return 130
    return 0


def _prepare(cache: Path) -> Generator[Progress, None, None]:
    folder = yield from hub.model_folder(hub.DEFAULT, cache)
    try:
        yield from load_backbone(folder, "auto", "auto")
    except MedusaError as error:  # it is converted all the same; the app says what to do
        print(error, file=sys.stderr)
    print(f"The default model is ready: {folder}")


if __name__ == "__main__":
    sys.exit(main())
