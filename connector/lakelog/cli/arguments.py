"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakelog.catalog import Table, open_table

WAREHOUSE_KEY = "LAKELOG_WAREHOUSE"

Warehouse = Annotated[
    Path, typer.Option("--warehouse", "-w", envvar=WAREHOUSE_KEY, help="The folder of the databases.")
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table's folder, or database.table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


def find_table(name: str, warehouse: Path) -> Table:
    """The table in the folder `name`, or of that identifier. Raises NotFoundError."""
    if "/" in name or Path(name).is_dir():
        return open_table(name)
    return open_table(name, warehouse)
