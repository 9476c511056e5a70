"""`python -m medusa_core`: the command line of `cli.py`."""

from medusa_core.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
