"""`lakelog log tail|verify|transactions`: what is in the log of a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any  # Any: a parsed JSON key

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.door import CLOSED_PIPE_CODE, STOPPED_CODE, is_pipe_closed, print_lines, write_error
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog import Table
    from lakelog.protocol.reading import LogTail


def tail(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    start: Annotated[
        str, typer.Option("--from", help="now, earliest, snapshot (behind the newest one), or a time; UTC.")
    ] = "now",
    offset: Annotated[
        list[str] | None, typer.Option("--offset", help="BUCKET:OFFSET to start at, for these buckets alone.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help='Only changes of this key: 7, or {"id": 7} with all its columns.')
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="End after this many changes.")] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more, or end with the log.")] = True,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print the changes in a log as they are committed.

    Ends with Ctrl-C, when the pipe is closed, or after --limit changes.
    """
    opened = find_table(table, warehouse)
    from lakelog.catalog.logs.log_verbs import open_tail

    at = _offsets(offset) if offset else start
    wanted = None if key is None else _key(opened, key)
    read = open_tail(opened.store, opened.log, start=at, key=wanted, follow=follow)
    if follow and not as_json:
        write_error("lakelog: waits for changes; Ctrl-C ends it, --no-follow ends with the log")
    try:
        for batch in _pieces(read, limit):
            print_lines(_json_lines(batch, read) if as_json else _text_lines(batch, opened))
    except KeyboardInterrupt:
        raise SystemExit(STOPPED_CODE) from None


def _pieces(read: LogTail, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The changes up to a limit. Ends the program when the reader of a pipe has ended, even while no change arrives."""
    left = limit
    batches = read.batches()
    while left is None or left > 0:
        batch = next(batches, None) if not read.until_end else next(batches, _ENDED)
        if batch is _ENDED:
            return
        if batch is None:
            if is_pipe_closed():
                raise SystemExit(CLOSED_PIPE_CODE)
            continue
        batch = batch if left is None else batch.slice(0, left)
        left = None if left is None else left - batch.num_rows
        yield batch


_ENDED: Any = object()


def _json_lines(batch: pa.RecordBatch, read: LogTail) -> list[str]:
    from lakelog.filestore.read import to_json_lines

    return to_json_lines(batch, read.fields)


def _text_lines(batch: pa.RecordBatch, table: Table) -> Iterator[str]:
    """Lines of time, bucket, offset, kind and row; where the batch changes, a line before names it."""
    from lakelog.filestore.read import to_json_lines

    names = ("_timestamp", "_bucket", "_offset", "_row_kind", "_user", "_batch_id")
    columns = [batch.column(name).to_pylist() for name in names]
    rows = to_json_lines(batch, table.schema.fields)
    last: tuple[object, ...] = ()
    for time, bucket, offset, kind, user, number, row in zip(*columns, rows, strict=True):
        shown = "no time" if time is None else f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03}"
        if (bucket, user, number) != last:
            last = (bucket, user, number)
            yield f"-- bucket {bucket}: " + (
                "records of a batch before" if user is None else f"batch {number} of {user}"
            )
        yield f"{shown}  bucket {bucket}  offset {offset}  {kind}  {row}"


def _offsets(given: list[str]) -> dict[int, int]:
    found = {}
    for text in given:
        bucket, colon, offset = text.partition(":")
        if not (colon and bucket.isascii() and bucket.isdigit() and offset.isascii() and offset.isdigit()):
            raise InvalidRequestError(f"--offset is {text!r}; expected BUCKET:OFFSET, such as 0:120")
        found[int(bucket)] = int(offset)
    return found


def _key(table: Table, text: str) -> Mapping[str, object]:
    """A key given as JSON, or as the plain value of its only column."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, dict):
        return value
    names = table.schema.primary_keys
    if len(names) != 1:
        raise InvalidRequestError(f"--key is {text!r}; expected a JSON object of the columns {', '.join(names)}")
    return {names[0]: value}
