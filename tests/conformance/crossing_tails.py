"""What either version of lakelog does with batches that are in the log of a table and in no snapshot.

Run as a program by the Python of either version, see `tests.conformance.crossing`:

    crossing_tails.py FOLDER STATEMENT    runs a statement on db.t of the warehouse FOLDER; prints one JSON object
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any  # Any: catalogs of two versions

from lakelog.catalog import Catalog
from tests.conformance.crossing import rows_of, shown
from tests.conformance.either_version import load, verb_of


def main(folder: Path, statement: str) -> None:
    """Run a statement, and print the rows before and after it."""
    catalog: Any = Catalog(folder)
    table = load(catalog, "db.t")
    found = shown(table)
    if statement == "write":
        table.write(rows_of({99: "z"}))
    else:
        table.delete("id = 2")
    table = load(catalog, "db.t")
    answer = {"found": found, "after": shown(table), "log_is_equal": verb_of(table, "log_store.verify")().is_equal}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
