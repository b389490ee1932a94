"""`lakelog table show`: the system tables of a table and of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import (
    HERE,
    AsJson,
    Branch,
    SnapshotId,
    Tag,
    Timestamp,
    Version,
    Warehouse,
    Watermark,
    Where,
    find_table,
    state,
)
from lakelog.cli.console.rows import Form, print_answer
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.refs import SnapshotChoice
    from lakelog.filestore.system import SystemTable

_CELL_MAX = 60  # characters; --json prints all

SystemName = Annotated[
    str, typer.Argument(metavar="TABLE", help="A system table such as 'db.t$files' or sys.tables; or a table.")
]
OfTable = Annotated[str | None, typer.Argument(metavar="[NAME]", help="With a table: files, snapshots, tags, ...")]


def show(  # noqa: PLR0917  # typer's arguments are the command line's
    table: SystemName,
    name: OfTable = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns, with commas.")] = None,
    where: Where = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Print at most this many rows.")] = None,
    snapshot_id: SnapshotId = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    watermark: Watermark = None,
    version: Version = None,
    branch: Branch = None,
    after: Annotated[int | None, typer.Option(help="Of audit_log and binlog: changes after this snapshot.")] = None,
    up_to: Annotated[int | None, typer.Option(help="Of audit_log and binlog: changes up to this snapshot.")] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print a system table of a table or a warehouse.

    'db.t$files' and the two words 'db.t files' name the same table; long values are cut unless --json is given.
    """
    from lakelog.common.options import parse_names

    full_name = table if name is None else f"{table}${name}"
    which = {**state(snapshot_id, timestamp, tag, watermark, version), "branch": branch}
    given = {key: value for key, value in which.items() if value is not None}
    found = _opened(full_name, warehouse, after, up_to, given)  # type: ignore[arg-type]  # the keys of a choice
    names = None if columns is None else parse_names(columns)
    rows = _limited(found.to_batches(columns=names, where=where), limit)
    if as_json:
        for batch in rows:
            print_answer(batch.to_pylist(), {}, Form.JSON, is_list=True)
        return
    shown = [row for batch in rows for row in batch.to_pylist()]
    print_answer(shown, {}, Form.GRID, is_list=True, brief=names or found.schema.names, cell_max=_CELL_MAX)


def _opened(full_name: str, warehouse: str, after: int | None, up_to: int | None, which: SnapshotChoice) -> SystemTable:
    from lakelog.catalog import Catalog
    from lakelog.warehouse.system_names import SYSTEM_DATABASE, split_name

    parts = split_name(full_name)
    if parts.system is not None and "/" in full_name:
        table = find_table(parts.table, warehouse, branch=parts.branch)
        return table.system.table(parts.system, after=after, up_to=up_to, **which)
    if parts.system is None and not full_name.startswith(f"{SYSTEM_DATABASE}."):
        raise InvalidRequestError(
            f"{full_name} names no system table; expected a name such as '{full_name}$files', "
            f"'{full_name} files', or sys.tables"
        )
    return Catalog(warehouse).system_table(full_name, after=after, up_to=up_to, **which)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        kept = batch if left is None else batch.slice(0, left)
        yield kept
        left = None if left is None else left - kept.num_rows
        if left == 0:
            return
