"""The reads of a table: the rows of a snapshot for Arrow, polars and DuckDB, and the changes of snapshots.

Each function imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack  # Any: duckdb is an optional extra without types here

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.tables.identity import check_schema, latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.reading import ChangeSource, change_source
from lakelog.filestore.refs.states.travel import AnyTable, SnapshotChoice, check_words, on_branch, travelled

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from duckdb import DuckDBPyRelation

    from lakelog.common.types import DataField
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.read.planned_read import PlannedRead
    from lakelog.filestore.refs.states.ranges import RangeName
    from lakelog.filestore.verbs.added_rows import AddedRows


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


_WORDS = tuple(Selection.__annotations__)


@dataclass(frozen=True, slots=True)
class _ReadRequest:
    """The checked arguments of a read: a table, or a branch of it, its snapshot, columns, and a condition."""

    table: TableStore
    snapshot: Snapshot | None
    fields: Sequence[DataField]
    where: Predicate | None

    @classmethod
    def of(cls, table: TableStore, what: Selection) -> _ReadRequest:
        """The arguments of a read, checked. Raises InvalidRequestError and NotFoundError."""
        from lakelog.filestore.predicate import check_filter, predicate_of

        check_words(what, _WORDS)
        table = on_branch(table, what.get("branch"))
        # Snapshots first: they show whether a schema file is lost, whose new columns would seem not to exist.
        if what.keys() - {"columns", "where"}:
            check_schema(table, table.snapshots.latest())
        table, snapshot = travelled(table, what)
        fields = table.schema.chosen(what.get("columns"))
        where = predicate_of(what.get("where"))
        if where is not None:
            check_filter(where, table.schema.fields)
        return cls(table, snapshot, fields, where)

    def planned(self, fields: Sequence[DataField] | None = None, *, skip: Predicate | None = None) -> PlannedRead:
        """The read in these columns, without files in which no row passes `skip`."""
        from lakelog.filestore.read.planned_read import PlannedRead

        fields = self.fields if fields is None else fields
        return PlannedRead.of(self.table, self.snapshot, fields, where=self.where, skip=skip)

    def pushed_into(self, names: Sequence[str], also: Predicate | None) -> PlannedRead:
        """The read for the columns and the filter of a query, which filters the rows itself."""
        return self.planned(self.table.schema.select(names), skip=also)


def planned(table: TableStore, **what: Unpack[Selection]) -> PlannedRead:
    """A read whose files are chosen, and not read yet. Wrong arguments raise now."""
    return _ReadRequest.of(table, what).planned()


def count_rows(table: TableStore, *, where: str | Predicate | None = None, **which: Unpack[SnapshotChoice]) -> int:
    """The exact number of rows. Reads files only if metadata are not enough."""
    asked = _ReadRequest.of(table, {"columns": None, "where": where, **which})
    schema = asked.table.schema
    return asked.planned([schema.field(schema.primary_keys[0]) if schema.primary_keys else schema.fields[0]]).count()


def look_up(
    table: TableStore,
    keys: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    columns: str | Sequence[str] | None = None,
    added: AddedRows | None = None,
    state_of: Callable[[frozenset[int]], tuple[TableStore, AddedRows | None]] | None = None,
) -> pa.Table:
    """The rows with these primary keys, in no order; a key without a row has none. Reads files that may hold them.

    With `added` the rows that it has, and the others from its snapshot; `state_of` gives the table to read and what is
    added to it for the buckets of the keys. Raises InvalidRequestError for other columns
    than those of the key, and for values of other types; UnsupportedError for a table without primary key.
    """
    import pyarrow as pa

    from lakelog.filestore.read.key_rows import key_filter, rows_with, typed_keys

    wanted = typed_keys(table, keys)
    if state_of is not None:
        from lakelog.filestore.write.places import places_of

        table, added = state_of(frozenset(places_of(table, wanted, None).buckets.tolist()))
    shown = [field.name for field in table.schema.chosen(columns)]
    read = [*shown, *(name for name in wanted.column_names if name not in shown)]
    found: list[pa.Table] = []
    if added is not None and wanted.num_rows:
        table = added.base
        found, wanted = added.find(wanted)
    if wanted.num_rows:
        rows = planned(table, columns=read, where=key_filter(table, wanted)).to_table()
        found.append(rows_with(rows, wanted))
    none = table.schema.arrow_schema.empty_table().select(shown)
    return pa.concat_tables([none, *(one.select(shown) for one in found)])


def to_polars(table: TableStore, **what: Unpack[Selection]) -> pl.LazyFrame:
    """The rows as a lazy polars frame, in no order; maps become lists of key and value.

    The snapshot is chosen now. Columns, limits and filters of a query reach the files, even without `columns` and
    `where`. Errors while a query runs are raised by polars: unchanged, or by older releases as a ComputeError that
    quotes them.
    """
    from lakelog.filestore.read.polars_scan import lazy_frame

    requested = _ReadRequest.of(table, what)
    return lazy_frame(requested.fields, requested.pushed_into)


def to_duckdb(table: TableStore, *, connection: Any = None, **what: Unpack[Selection]) -> DuckDBPyRelation:
    """The rows as a DuckDB relation, in no order. Needs duckdb 2.0: releases before it lose rows with NaN.

    The snapshot is chosen now. Columns and filters of a query reach the files, even without `columns` and `where`;
    each query reads them as a stream. Without `where` DuckDB reads large files itself: those that need no merge, and,
    if the key is among the columns, the oldest ones of a bucket with few younger rows.
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

    requested = _ReadRequest.of(table, what)
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
    table: TableStore,
    *,
    after: RangeName | None = None,
    up_to: RangeName | None = None,
    source: ChangeSource | str = ChangeSource.AUTO,
    columns: str | Sequence[str] | None = None,
    branch: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The changes of the snapshots after `after`, up to and including `up_to`; by default all changes that exist.

    The first column is `_row_kind` (+I, -U, +U, -D). Changes come snapshot by snapshot, bucket by bucket, or with the
    source `difference` as one difference of the two states. Raises NotFoundError for a snapshot that does not exist
    yet, and for one whose changes have expired; changes may be kept longer than snapshots.
    """
    from lakelog.filestore.system.range_changes import range_changes

    line = _followed(table, branch)
    return range_changes(line, line.schema.chosen(columns), after=after, up_to=up_to, source=change_source(source))


def rows_between(
    table: TableStore,
    after: RangeName | None = None,
    up_to: RangeName | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    branch: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows that are new or changed from one state to another, each once. See `changes`."""
    from lakelog.filestore.system.range_changes import net_rows

    line = _followed(table, branch)
    return net_rows(line, line.schema.chosen(columns), after=after, up_to=up_to)


def _followed(table: AnyTable, branch: str | None) -> AnyTable:
    line = on_branch(table, branch)
    check_foreign_options(line.schema.options, OptionUse.FOLLOW, table_name=table.name)
    check_schema(line, latest_of(line))
    return line
