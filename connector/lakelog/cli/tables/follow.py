"""`lakelog table follow`: the rows of a table, then its changes as they are committed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, Where, find_table
from lakelog.cli.console.door import CLOSED_PIPE_CODE, STOPPED_CODE, is_pipe_closed, print_lines, write_error
from lakelog.cli.console.output import to_json
from lakelog.cli.tables.show import print_rows
from lakelog.common.errors import InvalidRequestError

_POLL_SECONDS = 0.5


def follow(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    start: Annotated[
        str, typer.Option(help="snapshot, latest, a time with a zone, or the position that --json has printed.")
    ] = "snapshot",
    consumer: Annotated[str | None, typer.Option(help="Keep the place in the table, under this name.")] = None,
    until: Annotated[str | None, typer.Option(help="End at this position; latest: with what there is now.")] = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns, with commas.")] = None,
    where: Where = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print the rows, then each change as it is committed.

    A change is a JSON line with `_row_kind`. With --json a line {"position": ...} follows each batch: `--start` with
    that text goes on there. Ends with Ctrl-C, when the pipe is closed, or with --until.
    """
    opened = find_table(table, warehouse)
    from lakelog.common.options import parse_names

    names = None if columns is None else list(parse_names(columns))
    if until is None and not as_json:
        write_error("lakelog: waits for changes; Ctrl-C ends it, --until latest ends with what there is now")
    try:
        with opened.follow(start=_start(start), consumer=consumer, until=until, columns=names, where=where) as changes:
            while not changes.ended:
                batch = changes.poll(_POLL_SECONDS)
                if batch is not None:
                    print_rows(opened.schema, iter(batch.rows.to_batches()))
                    if as_json:
                        print_lines([to_json({"position": str(batch.position), "complete": batch.complete})])
                elif is_pipe_closed():
                    raise SystemExit(CLOSED_PIPE_CODE)
    except KeyboardInterrupt:
        raise SystemExit(STOPPED_CODE) from None


def _start(text: str) -> str | datetime:
    """A word or a position as it is, or a time."""
    if text in ("snapshot", "latest") or text.startswith("{"):
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"--start is {text!r}; expected snapshot, latest, a position, or a time with a zone such as "
            "2026-01-31T12:00:00+00:00"
        ) from error
