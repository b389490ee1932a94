"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakelog.catalog import Table, open_table
from lakelog.filestore.schema.paths import MAIN_BRANCH

WAREHOUSE_KEY = "LAKELOG_WAREHOUSE"
HERE = "."

Warehouse = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        envvar=WAREHOUSE_KEY,
        help="The folder of the databases; or s3://bucket/folder, hdfs://host/folder.",
    ),
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table's folder, or database.table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]


def find_table(name: str, warehouse: str, *, branch: str = MAIN_BRANCH, is_to_be_mended: bool = False) -> Table:
    """The table in the folder `name`, or of that identifier; or a branch of it. Raises NotFoundError.

    `is_to_be_mended` is that of `open_table`.
    """
    is_folder = "/" in name or _is_folder(name)
    return open_table(name, None if is_folder else warehouse, branch=branch, is_to_be_mended=is_to_be_mended)


def _is_folder(name: str) -> bool:
    """Whether there is a folder of this name; no, where it is too long for one."""
    try:
        return Path(name).is_dir()
    except OSError:
        return False
