"""Convert the default model now, so that the first window need not wait for it; prints how far it is.

Runs inside the virtual environment. Knows nothing of how that came to be.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from medusa_core import hub
from medusa_core.errors import MedusaError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=Path, help="keep the model under this folder instead of the user's cache")
    cache = hub.default_cache(parser.parse_args().profile)
    conversion = hub.model_folder(hub.DEFAULT, cache)
    try:
        while True:
            progress = next(conversion)
            print(f"{progress.stage} ({progress.done:.0f}{progress.unit})", flush=True)
    except StopIteration as finished:
        print(f"The default model is ready: {finished.value}")
    except MedusaError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        conversion.close()
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
