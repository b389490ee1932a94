"""The changes of a table as rows: CHANGES FROM ... TO ...

Source: Spark, `org.apache.spark.sql.connector.catalog.Changelog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.tables.commit_columns import (
    CHANGE_TYPE,
    COMMIT_TIME,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    compares_states,
    with_commit,
)
from lakelog.catalog.tables.commit_range import CommitRange
from lakelog.common.errors import UnsupportedError
from lakelog.common.timestamps import parse_timestamp
from lakelog.sql.language.parsing import literal_of

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.sql.language.names import FoundName

_MODE, _NET = "deduplicationmode", "netchanges"


def changes_of(found: FoundName, changes: exp.Expr, options: Mapping[str, str]) -> pa.Table:
    """The changes in a range, with the columns of Spark's CHANGES.

    Raises InvalidRequestError for a range that is none, NotFoundError for changes that are no longer kept.
    """
    given = {key.lower(): value.lower() for key, value in options.items()}
    mode = given.pop(_MODE, "")
    given.pop("computeupdates", None)
    if given or mode not in ("", "none", "dropcarryovers", _NET):
        raise UnsupportedError(
            f"CHANGES of {found} WITH ({', '.join(options)}): expected deduplicationMode = 'netChanges'"
        )
    table = found.table
    asked = CommitRange(
        first=_end_of(changes, "expression"),
        last=None if changes.args.get("to") is None else _end_of(changes, "to"),
        includes_first=not changes.args["excludes_first"],
        includes_last=not changes.args["excludes_last"],
    )
    after, up_to = asked.ends(table.store)
    last = (table.store.snapshots.latest_id() or 0) if up_to is None else up_to.number
    parts = _net(table, after.number, last) if mode == _NET else _by_commit(table, after.number, last)
    fields = [field.with_nullable(True) for field in table.schema.arrow_schema]
    schema = pa.schema(
        [*fields, (CHANGE_TYPE, pa.string()), (COMMIT_VERSION, pa.int64()), (COMMIT_TIMESTAMP, COMMIT_TIME)]
    )
    return pa.Table.from_batches([batch.cast(schema) for batch in parts], schema)


def _net(table: Table, after: int, last: int) -> Iterator[pa.RecordBatch]:
    if last > after:
        made_by = table.store.snapshots.get(last)
        for batch in table.changes(after=after, up_to=last, compare="states"):
            yield _with_commit(batch, made_by)


def _by_commit(table: Table, after: int, last: int) -> Iterator[pa.RecordBatch]:
    compare = "states" if compares_states(table.schema) else "auto"
    for number in range(after + 1, last + 1):
        made_by = table.store.snapshots.get(number)
        for batch in table.changes(after=number - 1, up_to=number, compare=compare):
            yield _with_commit(batch, made_by)


def _with_commit(batch: pa.RecordBatch, made_by: Snapshot) -> pa.RecordBatch:
    return with_commit(batch, snapshot_id=made_by.id, time_millis=made_by.time_millis)


def _end_of(changes: exp.Expr, name: str) -> str | datetime:
    value = literal_of(changes.args[name])
    if changes.name == "VERSION":
        return str(value)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=parse_timestamp(str(value), UTC))
