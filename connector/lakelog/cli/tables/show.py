"""`lakelog table cat|count|files|schema|snapshots`: show a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import (
    HERE,
    AsJson,
    Branch,
    SnapshotId,
    TableName,
    Tag,
    Timestamp,
    Version,
    Warehouse,
    Watermark,
    Where,
    find_table,
    state,
)
from lakelog.cli.console.door import is_terminal, print_lines
from lakelog.cli.console.output import progress, to_json
from lakelog.common.errors import InvalidRequestError
from lakelog.common.progress import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.filestore.schema import TableSchema

_PIECE_ROWS = 8_192  # rows that are printed at a time: a reader such as head ends soon


def cat(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    columns: Annotated[str | None, typer.Option(help="Only these columns, with commas.")] = None,
    where: Where = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Print at most this many rows.")] = None,
    snapshot_id: SnapshotId = None,
    timestamp: Timestamp = None,
    tag: Tag = None,
    watermark: Watermark = None,
    version: Version = None,
    branch: Branch = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Also rows that are in the log alone.")] = False,
    changes: Annotated[bool, typer.Option("--changes", help="Print changes with their _row_kind, not rows.")] = False,
    after: Annotated[str | None, typer.Option(help="With --changes: after this snapshot, tag or time.")] = None,
    up_to: Annotated[str | None, typer.Option(help="With --changes: up to this snapshot, tag or time.")] = None,
    compare: Annotated[
        str, typer.Option(help="With --changes: auto, states (the net difference), or rows (new or changed).")
    ] = "auto",
    as_json: AsJson = False,  # noqa: ARG001  # rows are always JSON lines; the option makes errors JSON
    warehouse: Warehouse = HERE,
) -> None:
    """Print rows (with --changes, changes) as JSON lines.

    Rows come in no particular order, changes in the order of their snapshots.
    """
    from lakelog.common.options import parse_names

    which = state(snapshot_id, timestamp, tag, watermark, version)
    found = find_table(table, warehouse, branch=branch)
    names = parse_names(columns) if columns is not None else None
    if changes:
        if where is not None or fresh or any(value is not None for value in which.values()):
            raise InvalidRequestError("--changes goes with --after, --up-to, --columns, --branch and --limit alone")
        batches = found.changes(after=after, up_to=up_to, compare=compare, columns=names)
    else:
        if after is not None or up_to is not None:
            raise InvalidRequestError("--after and --up-to go with --changes")
        batches = found.to_batches(columns=names, where=where, fresh=fresh, **which)
    schema = found.store.travelled(**which)[0].schema
    if is_terminal():  # the printed rows themselves show the progress
        print_rows(schema, batches, limit)
        return
    with progress(f"reading {found.name}"):
        print_rows(schema, batches, limit)


def print_rows(schema: TableSchema, batches: Iterator[pa.RecordBatch], limit: int | None = None) -> None:
    """Print rows while they are read. Reads no batch after the one with the last printed row."""
    from lakelog.common.types import ROW_KIND_COLUMN, DataField, parse_type
    from lakelog.filestore.read import to_json_lines

    kind = DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING NOT NULL"))
    for piece in counted(_pieces(batches, limit), f"times {_PIECE_ROWS} rows"):
        fields = [kind if name == ROW_KIND_COLUMN else schema.field(name) for name in piece.schema.names]
        print_lines(to_json_lines(piece, fields))


def _pieces(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows in small pieces, up to a number of rows. Takes no batch after the one with the last row."""
    left = limit
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        batch = batch if left is None else batch.slice(0, left)
        left = None if left is None else left - batch.num_rows
        for start in range(0, batch.num_rows, _PIECE_ROWS):
            yield batch.slice(start, _PIECE_ROWS)


def schema(table: TableName, branch: Branch = None, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the newest schema as JSON."""
    text = find_table(table, warehouse, branch=branch).schema.to_json()
    print_lines([to_json(json.loads(text))] if as_json else text.split("\n"))
