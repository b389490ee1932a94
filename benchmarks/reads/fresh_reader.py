"""A process that looks one key up in the newest committed state, again and again, for the benchmark `fresh`.

    python -m benchmarks.reads.fresh_reader <warehouse> <table> <key> <last batch>

It prints a line when it begins, and at the end one for each batch that it saw: its number, and when its row was there
(seconds since 1970).
"""

from __future__ import annotations

import json
import sys
import time

from lakelog.catalog import Catalog


def main(warehouse: str, name: str, key: int, last: int) -> None:
    """Look the key up until it has the row of the last batch."""
    table = Catalog(warehouse).load_table(name)
    seen: list[tuple[int, float]] = []
    print(flush=True)
    while not seen or seen[-1][0] < last:
        (number,) = table.lookup({"id": key}, fresh=True)["batch"].to_pylist()
        if not seen or number > seen[-1][0]:
            seen.append((number, time.time()))
    for one in seen:
        print(json.dumps(one))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
