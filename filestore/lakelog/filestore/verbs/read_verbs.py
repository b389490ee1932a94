"""The reads of a table: the rows of a snapshot for Arrow, polars and DuckDB, and the changes of snapshots.

Each verb imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Self, Unpack  # Any: duckdb is an optional extra without types here

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.tables.foreign_rows import warn_of_foreign_rows
from lakelog.filestore.metadata.tables.identity import check_schema, latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.read.change_source import ChangeSource, change_source
from lakelog.filestore.refs.states.travel import SnapshotChoice, chosen_state, on_branch, travelled

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyRelation

    from lakelog.common.types import DataField
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.table_files import TableFile
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.read.planned_read import PlannedRead
    from lakelog.filestore.refs.states.ranges import RangeName


_DUCKDB_MAJOR_MIN = 2


class Selection(SnapshotChoice, total=False):
    """The rows and columns of a read.

    `columns` are the columns in their order, or a string for a single one; `where` is a condition in SQL. Names are
    compared as in Spark: case matters only if the names of two columns differ in nothing else. `snapshot_id` names a
    snapshot, `timestamp` the newest one at that time or before, `watermark` the oldest one that has it, `tag` the one
    that the tag keeps, `version` a tag, a snapshot, `branch.tag`, `branch.snapshot` or a branch; without any of them
    the newest snapshot is read. A timestamp is a datetime, a string such as `2026-01-31 12:00:00`, or an int,
    milliseconds since 1970; without a zone it is in UTC. A state that is named is read in its own columns, not in the
    newest ones. With `branch` the read is of a snapshot or tag of that branch. See
    `lakelog.filestore.refs.states.travel`.
    """

    columns: str | Sequence[str] | None
    where: str | Predicate | None


_KEYWORDS = tuple(Selection.__annotations__)


@dataclass(frozen=True, slots=True)
class _ReadRequest:
    """The checked arguments of a read: a table, or a branch of it, its snapshot, columns, and a condition."""

    table: ReadableTable
    snapshot: Snapshot | None
    fields: Sequence[DataField]
    where: Predicate | None

    def planned(self, fields: Sequence[DataField] | None = None, *, skip: Predicate | None = None) -> PlannedRead:
        """The read in these columns, without files in which no row passes `skip`."""
        return self.table._read_of(self.snapshot, self.fields if fields is None else fields, self.where, skip=skip)

    def pushed_into(self, names: Sequence[str], also: Predicate | None) -> PlannedRead:
        """The read for the columns and the filter of a query. The filter only skips files: the query applies it to
        rows."""
        return self.planned(self.table.schema.select(names), skip=also)


@dataclass(frozen=True, kw_only=True)
class ReadableTable(TableStore):
    """A table with its reads."""

    def on_branch(self, branch: str | None) -> Self:
        """The branch as a table, with its newest schema; None means the table itself.

        Raises NotFoundError, naming the branches.
        """
        return on_branch(self, branch)

    def snapshot(self, **which: Unpack[SnapshotChoice]) -> Snapshot | None:
        """The snapshot to read: the newest, or the one that the keywords name; None for a table without snapshots.

        Raises NotFoundError for a snapshot, timestamp, watermark, tag or branch that does not exist. Logs a warning if
        it shows rows of another engine that the table's log lacks.
        """
        _check_keywords(which, tuple(SnapshotChoice.__annotations__))
        table, found = chosen_state(self, which)
        warn_of_foreign_rows(table, found)
        return found

    def travelled(self, **which: Unpack[SnapshotChoice]) -> tuple[Self, Snapshot | None]:
        """The table or the branch that the keywords name, in the columns of the named state, and its snapshot.

        See `snapshot`.
        """
        _check_keywords(which, tuple(SnapshotChoice.__annotations__))
        return self._travelled(which)

    def _travelled(self, which: SnapshotChoice) -> tuple[Self, Snapshot | None]:
        table, found = travelled(self, which)
        warn_of_foreign_rows(table, found)
        return table, found

    def _requested(self, what: Selection) -> _ReadRequest:
        """The arguments of a read, checked. Raises InvalidRequestError and NotFoundError."""
        from lakelog.filestore.predicate import check_filter, predicate_of

        _check_keywords(what, _KEYWORDS)
        table = self.on_branch(what.get("branch"))
        # Snapshots first: they show whether a schema file is lost, whose new columns would seem not to exist.
        if what.keys() - {"columns", "where"}:
            check_schema(table, table.snapshots.latest())
        table, snapshot = self._travelled(what)
        fields = table.schema.chosen(what.get("columns"))
        where = predicate_of(what.get("where"))
        if where is not None:
            check_filter(where, table.schema.fields)
        return _ReadRequest(table, snapshot, fields, where)

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows in batches and in no order. Wrong arguments raise before the first batch."""
        return self.planned(**what).batches()

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as one Arrow table, in no order. Reads on all cores, which share the memory budget."""
        return self.planned(**what).to_table()

    def count(self, *, where: str | Predicate | None = None, **which: Unpack[SnapshotChoice]) -> int:
        """The exact number of rows. Reads files only if metadata are not enough."""
        asked = self._requested({"columns": None, "where": where, **which})
        schema = asked.table.schema
        return asked.planned(
            [schema.field(schema.primary_keys[0]) if schema.primary_keys else schema.fields[0]]
        ).count()

    def files(self, **which: Unpack[SnapshotChoice]) -> list[TableFile]:
        """The data files of a snapshot, by partition, bucket, level and age; empty for a table without snapshots."""
        from lakelog.filestore.metadata.tables.table_files import table_files

        return table_files(*self.travelled(**which))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams, in bounded memory."""
        return self.planned().__arrow_c_stream__(requested_schema)

    def planned(self, **what: Unpack[Selection]) -> PlannedRead:
        """A read whose files are chosen, and not read yet."""
        return self._requested(what).planned()

    def _read_of(
        self,
        snapshot: Snapshot | None,
        fields: Sequence[DataField],
        where: Predicate | None,
        *,
        skip: Predicate | None = None,
    ) -> PlannedRead:
        from lakelog.filestore.read.planned_read import PlannedRead

        return PlannedRead.of(self, snapshot, fields, where=where, skip=skip)

    def to_polars(self, **what: Unpack[Selection]) -> pl.LazyFrame:
        """The rows as a lazy polars frame, in no order; maps become lists of key and value.

        The snapshot is chosen now. Columns, limits and filters of a query reach the files, even without `columns` and
        `where`. Errors while a query runs are raised by polars: unchanged, or by older releases as a ComputeError that
        quotes them.
        """
        from lakelog.filestore.read.polars_scan import lazy_frame

        requested = self._requested(what)
        return lazy_frame(requested.fields, requested.pushed_into)

    def to_duckdb(self, *, connection: Any = None, **what: Unpack[Selection]) -> DuckDBPyRelation:
        """The rows as a DuckDB relation, in no order. Needs duckdb 2.0: releases before it lose rows with NaN.

        The snapshot is chosen now. Columns and filters of a query reach the files, even without `columns` and `where`;
        each query reads them as a stream. Without `where` DuckDB reads large files itself: those that need no merge,
        and, if the key is among the columns, the oldest ones of a bucket with few younger rows.
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
        from lakelog.filestore.read.duckdb.relation import relation_of

        requested = self._requested(what)
        if not requested.fields:
            raise InvalidRequestError("to_duckdb needs a column, and `columns` names none; count rows by `count`")
        return relation_of(
            connection or duckdb.default_connection(),
            requested.pushed_into,
            fields=requested.fields,
            table=requested.table,
            snapshot=requested.snapshot if requested.where is None else None,
        )

    def changes(
        self,
        *,
        after: RangeName | None = None,
        up_to: RangeName | None = None,
        source: ChangeSource | str = ChangeSource.AUTO,
        columns: str | Sequence[str] | None = None,
        branch: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes of the snapshots after `after`, up to and including `up_to`; by default all changes that exist.

        The first column is `_row_kind` (+I, -U, +U, -D). Changes come snapshot by snapshot, bucket by bucket, or with
        the source `difference` as one difference of the two states. Raises NotFoundError for a snapshot that does not
        exist yet, and for one whose changes have expired; changes may be kept longer than snapshots.
        """
        from lakelog.filestore.system.range_changes import range_changes

        table = self._followed(branch)
        return range_changes(
            table, table.schema.chosen(columns), after=after, up_to=up_to, source=change_source(source)
        )

    def rows_between(
        self,
        after: RangeName | None = None,
        up_to: RangeName | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        branch: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are new or changed from one state to another, each once. See `changes`."""
        from lakelog.filestore.system.range_changes import net_rows

        table = self._followed(branch)
        return net_rows(table, table.schema.chosen(columns), after=after, up_to=up_to)

    def _followed(self, branch: str | None) -> Self:
        table = self.on_branch(branch)
        check_foreign_options(table.schema.options, OptionUse.FOLLOW, table_name=self.name)
        check_schema(table, latest_of(table))
        return table


def _check_keywords(given: SnapshotChoice, known: Sequence[str]) -> None:
    """Raise InvalidRequestError for a keyword that a read does not have."""
    for keyword in given:
        if keyword not in known:
            near = get_close_matches(keyword, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {listed(known)}"
            raise InvalidRequestError(f"a read takes no {keyword!r}; {hint}")
