"""Take in the lineage of columns of OpenLineage events.

usage: python -m demo.openlineage WAREHOUSE FILE...
The files hold one event a line, as the File transport of other producers writes them. The lineage is marked as foreign:
other producers have reported it. Lines that are not events are reported and left out.
"""

from __future__ import annotations

import sys

from demo.openlineage.importing import import_events
from lakelog.catalog import Catalog


def main(warehouse: str, *files: str) -> None:
    """Take them in, and print how many there were."""
    found = import_events(Catalog(warehouse), files, on_unreadable=lambda error: print(error, file=sys.stderr))
    print(f"{found.events} events of {found.runs} runs, {found.programs} programs")


if __name__ == "__main__":
    main(*sys.argv[1:])
