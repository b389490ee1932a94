"""Compares a log with the files of its table: snapshot a plus the changes from a to b must equal snapshot b.

Rows are compared as JSON of the log, which keeps the values of every type. With a primary key, the last change of a key
counts; without one, how often a row occurs: insertions minus deletions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.common.progress import counted
from lakelog.common.types import ROW_KIND_COLUMN, DataField, RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.merge import to_series
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.options import READ_MEMORY_BUDGET
from lakelog.filestore.read import plan_splits, read_splits_as_changes
from lakelog.filestore.write import KeyParts
from lakelog.logstore.codec.json_text import row_json
from lakelog.logstore.kafka.records.reader import OFFSET_COLUMN, read_range
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.log_generations import ended_before
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.log_gaps import gap_test
from lakelog.protocol.stores.table_states import read_state

_KEY, _ROW, _COUNT, _SOURCE = "key", "row", "count", "source"
_BUCKET, _OFFSET, _ORDER = "bucket", "offset", "order"  # of records, null for rows of snapshots
_OLD, _LOG, _NEW = 0, 1, 2
_SCHEMA = pl.Schema(
    {_KEY: pl.String, _ROW: pl.String, _COUNT: pl.Int64, _SOURCE: pl.Int8}
    | {_BUCKET: pl.Int32, _OFFSET: pl.Int64, _ORDER: pl.Int64}
)
_ADDS = [kind.value for kind in RowKind if kind.is_add]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """A row on which log and snapshot differ: how often each has it.

    `row` is its JSON, `key` that of its primary key, empty without one. `bucket` and `offset` are those of the last
    record of its key (without a key: of the row) in the range; None when the range has none.
    """

    key: str
    row: str
    count_by_log: int
    count_in_snapshot: int
    bucket: int | None
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerification:
    """The result of a verification of the snapshots `from_snapshot` (0: before the first) to `to_snapshot`.

    `difference_count` counts the rows that differ; `first` is the one with the smallest key, then row.
    """

    from_snapshot: int
    to_snapshot: int
    row_count: int
    change_count: int
    difference_count: int
    first: LogDifference | None

    @property
    def is_equal(self) -> bool:
        """Whether log and files agree."""
        return self.difference_count == 0


def verify_log(
    table: FileStoreTable,
    log: TableLog,
    *,
    from_snapshot: int | None = None,
    to_snapshot: int | None = None,
    budget_bytes: int | None = None,
) -> LogVerification:
    """Compare log and files from one snapshot, by default the oldest of this log, to another, by default the newest.

    0 is the state before the first snapshot. Both snapshots and the records are kept while it runs. Raises
    NotFoundError for a snapshot that does not exist, LogTruncatedError when the log lacks records of the range,
    InvalidRequestError for a table without snapshots and for snapshots in the wrong order, UnsupportedError for an
    eventual log, UnavailableError.
    """
    if log.is_eventual:
        raise UnsupportedError(
            f"table {table.name} has log.consistency=eventual: its log holds records before their snapshot, and "
            "repeats them, so no snapshot equals the log up to an offset; compare the newest snapshot with what a "
            "stream has read"
        )
    log.check_topic()
    first, last = _range_of(table, from_snapshot, to_snapshot)
    topic_id = log.topic_id
    with _kept(table, topic_id, first or last):
        before, after = (_state(table, topic_id, snapshot_id) for snapshot_id in (first, last))
        budget = READ_MEMORY_BUDGET.understood(table.schema.options) if budget_bytes is None else budget_bytes
        with KeyParts([], budget_bytes=budget, frame_of=_keys) as parts:
            old_count = _add_snapshot(parts, _OLD, table, first)
            change_count = _add_log(parts, table, log, before, after)
            new_count = _add_snapshot(parts, _NEW, table, last)
            found = _Differences()
            for part in parts.parts():
                found.add(_compare(pl.DataFrame(part), has_key=bool(table.schema.primary_keys)))
    return LogVerification(
        from_snapshot=first,
        to_snapshot=last,
        row_count=max(old_count, new_count) if first == last else new_count,
        change_count=change_count,
        difference_count=found.count,
        first=found.first,
    )


def _range_of(table: FileStoreTable, from_snapshot: int | None, to_snapshot: int | None) -> tuple[int, int]:
    oldest, newest = table.snapshots.earliest_id(), table.snapshots.latest_id()
    if oldest is None or newest is None:
        raise InvalidRequestError(f"table {table.name} has no snapshot yet: there is nothing to compare its log with")
    begin = _first_of_log(table, newest)
    first = max(oldest, begin) if from_snapshot is None else from_snapshot
    last = newest if to_snapshot is None else to_snapshot
    if first < begin:
        raise InvalidRequestError(
            f"table {table.name} has its log since snapshot {begin}: the changes behind snapshot {first} are not in it;"
            f" begin with snapshot {begin} or a later one"
        )
    if first > last:
        raise InvalidRequestError(f"snapshot {first} is newer than snapshot {last}; the range goes from old to new")
    return first, last


def _first_of_log(table: FileStoreTable, newest: int) -> int:
    """The first snapshot of the table's present log; 0 if the table had no other log before."""
    ended = ended_before(table, table.snapshots.get(newest))
    return ended[-1].snapshot_id if ended else 0


@contextmanager
def _kept(table: FileStoreTable, topic_id: str, snapshot_id: int) -> Iterator[None]:
    """Keep a snapshot, those after it and their records from expiry."""
    name = f"verify-{uuid.uuid4().hex}"
    leases = LogLeases(table, topic_id)
    with ConsumerManager(table.file_io, table.paths).holding(snapshot_id):
        try:
            state = _state(table, topic_id, snapshot_id)
            leases.put(name, {bucket: at.offset for bucket, at in state.positions.items()})
            yield
        finally:
            leases.delete(name)


def _state(table: FileStoreTable, topic_id: str, snapshot_id: int) -> LogState:
    snapshot = table.snapshots.get(snapshot_id) if snapshot_id else None
    if snapshot_id and snapshot is None:
        raise NotFoundError(f"table {table.name} has no snapshot {snapshot_id}")
    return LogState(topic_id=topic_id) if snapshot is None else read_state(table, snapshot, topic_id=topic_id).logged


def _add_snapshot(parts: KeyParts, source: int, table: FileStoreTable, snapshot_id: int) -> int:
    """Add the rows of a snapshot, each with 1, or -1 for a negative count of a row; returns their number."""
    if not snapshot_id:
        return 0
    count = 0
    splits = plan_splits(table, table.snapshots.get(snapshot_id)).splits
    for batch, kinds in counted(read_splits_as_changes(table, splits), f"pieces of snapshot {snapshot_id}"):
        count += batch.num_rows
        _add(parts, table, pa.Table.from_batches([batch]), pl.Series(kinds), source=source)
    return count


def _add_log(parts: KeyParts, table: FileStoreTable, log: TableLog, before: LogState, after: LogState) -> int:
    """Add the changes between two states, with their order; returns their number."""
    order = 0
    for bucket in range(table.bucket_count):
        start, end = before.position(bucket).offset, after.position(bucket).offset
        batches = read_range(
            kafka_topic(log).partition(bucket),
            table.schema.fields,
            start=start,
            end=end,
            with_offset=True,
            holds_nothing=gap_test(table, log.topic_id, bucket),
        )
        for batch in counted(batches, f"pieces of the log of bucket {bucket}"):
            whole = pa.Table.from_batches([batch])
            places = {
                _BUCKET: pl.repeat(bucket, len(whole), dtype=pl.Int32, eager=True),
                _OFFSET: pl.Series(whole[OFFSET_COLUMN].to_numpy()),
                _ORDER: pl.Series(range(order, order + len(whole)), dtype=pl.Int64),
            }
            kinds = pl.Series(whole[ROW_KIND_COLUMN].to_numpy())
            _add(parts, table, whole, kinds, source=_LOG, places=places)
            order += len(whole)
    return order


def _add(
    parts: KeyParts,
    table: FileStoreTable,
    rows: pa.Table,
    kinds: pl.Series,
    *,
    source: int,
    places: Mapping[str, pl.Series] | None = None,
) -> None:
    """Add rows of a source, keys and rows as JSON; without a primary key the row is its own key."""
    row = to_series(row_json(rows, table.schema.fields))
    names = table.schema.primary_keys
    key = to_series(row_json(rows, table.schema.select(names))) if names else row
    counts = kinds.is_in(_ADDS).cast(pl.Int64) * 2 - 1
    frame = pl.DataFrame({_KEY: key, _ROW: row, _COUNT: counts, **(places or {})})
    frame = frame.with_columns(pl.lit(source, pl.Int8).alias(_SOURCE))
    whole = pl.concat([_SCHEMA.to_frame(), frame], how="diagonal")
    parts.add(whole.to_arrow(compat_level=pl.CompatLevel.oldest()))


def _keys(rows: pa.Table, _fields: Sequence[DataField]) -> pl.DataFrame:
    return pl.DataFrame(rows.select([_KEY]))


def _compare(rows: pl.DataFrame, *, has_key: bool) -> pl.DataFrame:
    """The rows whose number differs between log and new snapshot, with the last record of their key."""
    old, log, new = (rows.filter(pl.col(_SOURCE) == source) for source in (_OLD, _LOG, _NEW))
    last = log.sort(_ORDER).unique(_KEY, keep="last", maintain_order=True)
    changes = log
    if has_key:
        changes = last.filter(pl.col(_COUNT) > 0)
        old = old.join(last, on=_KEY, how="anti")
    expected = pl.concat([old, changes]).group_by(_KEY, _ROW).agg(pl.col(_COUNT).sum())
    found = new.group_by(_KEY, _ROW).agg(pl.col(_COUNT).sum().alias("found"))
    both = expected.join(found, on=[_KEY, _ROW], how="full", coalesce=True).with_columns(
        pl.col(_COUNT).fill_null(0), pl.col("found").fill_null(0)
    )
    different = both.filter(pl.col(_COUNT) != pl.col("found"))
    return different.join(last.select(_KEY, _BUCKET, _OFFSET), on=_KEY, how="left")


class _Differences:
    """How many differences there are, and the first one."""

    def __init__(self) -> None:
        self.count = 0
        self.first: LogDifference | None = None

    def add(self, different: pl.DataFrame) -> None:
        """Take in the differences of a piece."""
        self.count += different.height
        if not different.height:
            return
        first = different.sort(_KEY, _ROW).row(0, named=True)
        one = LogDifference(
            key=first[_KEY] if first[_KEY] != first[_ROW] else "",
            row=first[_ROW],
            count_by_log=first[_COUNT],
            count_in_snapshot=first["found"],
            bucket=first[_BUCKET],
            offset=first[_OFFSET],
        )
        if self.first is None or (one.key, one.row) < (self.first.key, self.first.row):
            self.first = one
