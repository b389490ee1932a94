"""The reading half of a table: rows of a snapshot for Arrow, polars and DuckDB, and the changes of snapshots.

Each verb imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack  # Any: duckdb is an optional extra without types here

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.timestamps import Timestamp, millis_of
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS
from lakelog.filestore.metadata.foreign_rows import warn_of_foreign_rows
from lakelog.filestore.metadata.identity import check_schema
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.foreign import Use, check_foreign_options
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.change_source import ChangeSource

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyRelation

    from lakelog.common.types import DataField
    from lakelog.filestore.metadata.snapshot import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.read.planned_read import PlannedRead


_DUCKDB_MAJOR_MIN = 2


class SnapshotChoice(TypedDict, total=False):
    """Which state of a table a read shows: one of these, or without any the newest."""

    snapshot_id: int | None
    timestamp: Timestamp | None
    tag: str | None


class Selection(SnapshotChoice, total=False):
    """Which rows and columns a read gives.

    `where` is a condition in SQL. `snapshot_id` reads that snapshot, `timestamp` the newest one at that time or before,
    `tag` the one that the tag keeps; without any of them it is the newest. A timestamp is a datetime, a string such as
    `2026-01-31 12:00:00`, or an int, milliseconds since 1970; without a zone it is in UTC.
    """

    columns: Sequence[str] | None
    where: str | Predicate | None


@dataclass(frozen=True, kw_only=True)
class ReadableTable(TableStore):
    """A table as its readers know it."""

    def snapshot(
        self, *, snapshot_id: int | None = None, timestamp: Timestamp | None = None, tag: str | None = None
    ) -> Snapshot | None:
        """The snapshot to read: by id, by time, by tag, or the newest; None for a table without any.

        Raises NotFoundError for an id or a tag that is not there and for a time before the oldest living snapshot.
        Logs a warning where it shows rows of another engine that the table's log lacks.
        """
        if sum(given is not None for given in (snapshot_id, timestamp, tag)) > 1:
            raise InvalidRequestError("a read takes one of a snapshot id, a timestamp and a tag")
        if tag is not None:
            found: Snapshot | None = self.snapshots.tagged(tag)
        elif snapshot_id is not None:
            found = self.snapshots.get(snapshot_id)
        elif timestamp is None:
            found = self.snapshots.latest()
        else:
            millis = millis_of(timestamp)
            found = self.snapshots.at_or_before(millis)
            if found is None:
                raise NotFoundError(f"{self.name} has no snapshot at or before {millis} ms; name a later time")
        warn_of_foreign_rows(self, found)
        return found

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows in batches and in no order. What is wrong with the arguments is raised before the first batch."""
        return self._planned(**what).batches()

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as one Arrow table, in no order. Reads on all cores, which share the memory budget."""
        return self._planned(**what).to_table()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams, in bounded memory."""
        return self._planned().__arrow_c_stream__(requested_schema)

    def _planned(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> PlannedRead:
        if which:
            check_schema(self, self.snapshots.latest())
        return self._read_of(self.snapshot(**which), columns, _condition(where))

    def _read_of(
        self,
        snapshot: Snapshot | None,
        columns: Sequence[str] | None,
        where: Predicate | None,
        *,
        skip: Predicate | None = None,
    ) -> PlannedRead:
        from lakelog.filestore.predicate.tree import And
        from lakelog.filestore.read.fallback import plan_read
        from lakelog.filestore.read.planned_read import PlannedRead

        parts = tuple(part for part in (where, skip) if part is not None)
        return PlannedRead(
            table=self,
            fields=self.schema.fields if columns is None else self.schema.select(columns),
            where=where,
            skip=skip,
            splits=plan_read(self, snapshot, where=And(parts=parts) if parts else None).splits,
            budget_bytes=READ_MEMORY_BUDGET.of(self.schema.options),
        )

    def to_polars(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> pl.LazyFrame:
        """The rows as a lazy polars frame, in no order; maps become lists of key and value.

        The snapshot is chosen now. Columns, limits and filters of a query reach the files, also without `columns` and
        `where`. What goes wrong while a query runs is raised by polars: as it is, or by older releases as a
        ComputeError that quotes it.
        """
        from lakelog.filestore.read.polars_scan import lazy_frame

        fields, planned = self._pushed_into(columns, where, which)
        return lazy_frame(fields, planned)

    def to_duckdb(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | Predicate | None = None,
        connection: Any = None,
        **which: Unpack[SnapshotChoice],
    ) -> DuckDBPyRelation:
        """The rows as a DuckDB relation, in no order. Needs duckdb 2.0: releases before it lose rows with NaN.

        The snapshot is chosen now. Columns and filters of a query reach the files, also without `columns` and `where`;
        each query reads them as a stream.
        """
        try:
            import duckdb
        except ImportError as error:
            raise InvalidRequestError("to_duckdb needs duckdb: pip install 'lakelog[duckdb]'") from error
        if int(duckdb.__version__.partition(".")[0]) < _DUCKDB_MAJOR_MIN:
            raise InvalidRequestError(
                f"to_duckdb needs duckdb {_DUCKDB_MAJOR_MIN}.0 or later, found {duckdb.__version__}, whose filters of "
                "Arrow data lose rows with NaN: pip install 'lakelog[duckdb]'"
            )
        from lakelog.filestore.read.arrow_dataset import LakelogDataset

        fields, planned = self._pushed_into(columns, where, which)
        return duckdb.from_arrow(LakelogDataset(fields, planned), connection=connection or duckdb.default_connection())

    def _pushed_into(
        self, columns: Sequence[str] | None, where: str | Predicate | None, which: SnapshotChoice
    ) -> tuple[Sequence[DataField], Callable[[Sequence[str], Predicate | None], PlannedRead]]:
        """The columns of a read of one snapshot, and how to plan it for a query's columns and filter.

        The filter of the query only skips files: the query applies it to the rows.
        """
        from lakelog.filestore.predicate import check_filter

        predicate = _condition(where)
        fields = self.schema.fields if columns is None else self.schema.select(columns)
        if predicate is not None:
            check_filter(predicate, self.schema.fields)
        if which:
            check_schema(self, self.snapshots.latest())
        snapshot = self.snapshot(**which)

        def planned(names: Sequence[str], also: Predicate | None) -> PlannedRead:
            return self._read_of(snapshot, names, predicate, skip=also)

        return fields, planned

    def changes(
        self,
        *,
        after: int | None = None,
        up_to: int | None = None,
        source: ChangeSource = ChangeSource.AUTO,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes of the snapshots behind `after`, up to `up_to`: all that are there by default.

        The columns follow `_row_kind` (+I, -U, +U, -D). Changes come snapshot by snapshot, bucket by bucket. Raises
        NotFoundError for a snapshot whose changes are not there: they may be kept longer than snapshots.
        """
        from lakelog.filestore.read.changes import first_changes, snapshot_of_changes

        check_foreign_options(self.schema.options, Use.FOLLOW, table_name=self.name)
        check_schema(self, self.snapshots.latest())
        fields = self.schema.fields if columns is None else self.schema.select(columns)
        first = first_changes(self) if after is None else after + 1
        last = (self.snapshots.latest_id() or 0) if up_to is None else up_to
        found = [snapshot_of_changes(self, number) for number in range(first, last + 1)]
        return self._changes(found, fields, source)

    def _changes(
        self, snapshots: Sequence[Snapshot], fields: Sequence[DataField], source: ChangeSource
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from lakelog.common.arrow import to_arrow_schema
        from lakelog.filestore.read.changes import change_files, read_change_file

        texts = pa.array(ROW_KIND_TEXTS)
        schema = pa.schema([pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False), *to_arrow_schema(fields)])
        for snapshot in snapshots:
            for entry in change_files(self, snapshot, source):
                for batch in read_change_file(self, entry, fields, kind_name=ROW_KIND_COLUMN):
                    *values, kinds = batch.columns
                    yield pa.RecordBatch.from_arrays([texts.take(kinds), *values], schema=schema)


def _condition(where: str | Predicate | None) -> Predicate | None:
    """A condition, parsed where it is SQL."""
    from lakelog.filestore.predicate import parse_where

    return parse_where(where) if isinstance(where, str) else where
