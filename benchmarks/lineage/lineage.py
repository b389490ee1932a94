"""Lineage: what its capture adds to a micro-batch, and what its questions and its feeding take.

Each part is a module `lineage_*.py` beside this one with a function `run(folder, *, is_small)`: it gives the figures.
`--part NAME` runs one. Parts: `capture`, two sinks on the same micro-batches take turns, one of them without capture;
`ratio_batch` is the ratio of the medians for batches of 200,000 rows, `small_batch_ms` the median of the differences
for batches of 100 rows; `questions`, ten levels up and down over 100,000 edges (`depth10_ms`); `feed`,
100 commits after each other in four tables, then a feed, twenty times (`feed_per_s`: batches by the time of feeds).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.lineage import lineage_capture, lineage_feed, lineage_questions

Part = Callable[..., dict[str, object]]
PARTS: Mapping[str, Part] = {
    "capture": lineage_capture.run,
    "questions": lineage_questions.run,
    "feed": lineage_feed.run,
}


def main() -> None:
    """Run the parts, and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--part", choices=sorted(PARTS), help="run this part alone")
    arguments = parser.parse_args()
    summary: dict[str, object] = {}
    for name in [arguments.part] if arguments.part else PARTS:
        with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
            summary |= PARTS[name](Path(folder), is_small=arguments.small)
    for figure, value in summary.items():
        print(f"{figure:28} {value:>12}")
    if arguments.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
