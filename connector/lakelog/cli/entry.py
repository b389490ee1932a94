"""The entry point of the command `lakelog`, which needs packages that the library does not: the extra `cli`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line; if its packages are missing, print the command that installs them, with exit code 1."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"lakelog: the command line needs {' and '.join(missing)}, not installed; pip install 'lakelog[cli]'\n"
        )
        sys.exit(1)
    from lakelog.cli.main import main as run

    run()
