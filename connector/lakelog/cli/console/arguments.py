"""Arguments that several commands share, and the table that they name.

Modules of the command line import what a command needs when it is called: `lakelog --help` must not wait for Arrow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.output import remember_json
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.refs import SnapshotChoice

WAREHOUSE_KEY = "LAKELOG_WAREHOUSE"
HERE = "."

Warehouse = Annotated[
    str,
    typer.Option(
        "--warehouse", "-w", envvar=WAREHOUSE_KEY, help="Folder of the databases, s3://bucket/folder or hdfs://..."
    ),
]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table's folder, or database.table.")]
AsJson = Annotated[
    bool, typer.Option("--json", callback=remember_json, help="Print JSON lines; errors too, on standard error.")
]
SnapshotId = Annotated[int | None, typer.Option("--snapshot-id", help="Show this snapshot.")]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", help="Show the table as of this time; UTC without a zone.")
]
Tag = Annotated[str | None, typer.Option("--tag", help="Show the snapshot that this tag keeps.")]
Watermark = Annotated[
    int | None, typer.Option("--watermark", help="Show the first snapshot with this watermark or a later one.")
]
Version = Annotated[
    str | None,
    typer.Option("--version", help="Show this tag, snapshot, branch, or branch.tag, in this order."),
]
Branch = Annotated[str | None, typer.Option("--branch", help="Of this branch, not of the table.")]
Where = Annotated[str | None, typer.Option("--where", help="Only rows that meet this SQL condition.")]


def find_table(name: str, warehouse: str, *, branch: str | None = None, is_to_be_mended: bool = False) -> Table:
    """The table, or a branch of it, whose folder or identifier is `name`. Raises NotFoundError.

    With `is_to_be_mended` the table may have settings of Kafka clients that a table must not hold.
    """
    from lakelog.catalog.catalog import open_table, open_to_mend
    from lakelog.filestore.schema import MAIN_BRANCH

    is_folder = "/" in name or _is_folder(name)
    place = None if is_folder else warehouse
    return (open_to_mend if is_to_be_mended else open_table)(name, place, branch=branch or MAIN_BRANCH)


def state(
    snapshot_id: int | None,
    timestamp: str | None,
    tag: str | None,
    watermark: int | None = None,
    version: str | None = None,
) -> SnapshotChoice:
    """The state of a table that the options name. Raises InvalidRequestError for more than one, by their names."""
    found: SnapshotChoice = {
        "snapshot_id": snapshot_id,
        "timestamp": timestamp,
        "tag": tag,
        "watermark": watermark,
        "version": version,
    }
    named = [f"--{key.replace('_', '-')}" for key, value in found.items() if value is not None]
    if len(named) > 1:
        raise InvalidRequestError(f"{' and '.join(named)} each name a state of the table: give one of them")
    return found


def key_value(text: str) -> tuple[str, str]:
    """The option in an argument KEY=VALUE. Raises InvalidRequestError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequestError(f"option {text!r} has no value; expected KEY=VALUE")
    return key.strip(), value.strip()


def _is_folder(name: str) -> bool:
    """Whether there is a folder of this name; False for a name that is too long."""
    try:
        return Path(name).is_dir()
    except OSError:
        return False
