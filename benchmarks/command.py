"""The command line of a benchmark that needs no Spark."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path


def run_command(description: str | None, run: Callable[[Path, bool], dict[str, object]]) -> None:
    """Run a benchmark in a folder of its own, small or in full, and print its figures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        summary = run(Path(folder), arguments.small)
    print_summary(summary, as_json=arguments.json)


def print_summary(summary: Mapping[str, object], *, as_json: bool) -> None:
    """Print figures, one a line, and as one JSON object behind them if that was asked for."""
    for name, value in summary.items():
        print(f"{name:28} {value:>12,}" if isinstance(value, int) else f"{name:28} {value:>12}")
    if as_json:
        print(json.dumps(summary))
