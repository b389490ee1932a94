"""The reads of a table: rows, changes and descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Unpack

from lakelog.common.errors import InvalidRequestError
from lakelog.common.html import ShownIterator
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.verb import verb

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from lakelog.catalog.tables.describing import TableDescription
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs import RangeName, SnapshotChoice
    from lakelog.filestore.system import DiffState, History, TableDiff
    from lakelog.filestore.verbs import Selection

_LOOK = "Look at tables"
_SHOWN_MAX = 10
_HOW_TO_ITERATE = "iterate over them, or make one table by pyarrow.Table.from_batches(batches)"


def _operation(snapshot: Snapshot) -> str | None:
    from lakelog.filestore.metadata.snapshots import operation_of

    return operation_of(snapshot)


class TableReads(TableHandle):
    """The verbs that read; they need no Kafka."""

    place = "table"

    @verb(
        panel=_LOOK,
        answer={
            "id": "id",
            "schema_id": "schema_id",
            "kind": "commit_kind",
            "operation": _operation,
            "time": "time_millis",
            "time_millis": "time_millis",
            "total_record_count": "total_record_count",
            "delta_record_count": "delta_record_count",
            "user": "commit_user",
            "identifier": "commit_identifier",
            "batch": "batch",
        },
        brief=("id", "kind", "time", "operation", "total_record_count", "user", "batch"),
    )
    def snapshots(self, *, branch: str | None = None) -> Iterator[Snapshot]:
        """The snapshots that have not expired, oldest first.

        >>> ids = [snapshot.id for snapshot in table.snapshots()]
        """
        manager = self.store.on_branch(branch).snapshots

        def show() -> str:
            ids = manager.ids()
            newest = [f"  {one!r}" for one in map(manager.find, ids[-_SHOWN_MAX:]) if one is not None]
            more = "  ...\n" if len(ids) > _SHOWN_MAX else ""
            return f"{len(ids)} snapshots of {self.name}, oldest first; iterate over them, or list() them\n{more}" + (
                "\n".join(newest)
            )

        return ShownIterator((manager.get(snapshot_id) for snapshot_id in manager.ids()), show)

    def snapshot(self, **which: Unpack[SnapshotChoice]) -> Snapshot | None:
        """The newest snapshot, or the one that the arguments name; None for a table without snapshots.

        Raises NotFoundError for a snapshot, tag or branch that does not exist, and for a time before the oldest one.

        >>> newest, then = table.snapshot(), table.snapshot(tag="friday")
        """
        return self.store.snapshot(**which)

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as an Arrow table; without arguments all rows of the newest snapshot.

        >>> large = table.to_arrow(columns=["id"], where="amount > 10", tag="friday")
        """
        return self.store.to_arrow(**what)

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows in batches, for tables larger than memory.

        >>> rows = sum(batch.num_rows for batch in table.to_batches(snapshot_id=1))
        """
        return self.store.planned(**what).batches()

    @verb(panel=_LOOK, answer={"row_count": ""})
    def count(self, *, where: str | Predicate | None = None, **which: Unpack[SnapshotChoice]) -> int:
        """The exact number of rows. With `where`, of those that meet a condition.

        Reads files only if metadata is not enough: with a condition, and for rows that are not merged yet.

        >>> large = table.count(where="amount > 10")
        """
        from lakelog.filestore.verbs import count_rows

        return count_rows(self.store, where=where, **which)

    def describe(self) -> TableDescription:
        """The table at its newest snapshot: keys, files, log, watermark and change tracking. Asks no Kafka.

        Source: FLIP-188, "DESCRIBE".

        >>> print(table.describe())
        """
        from lakelog.catalog.tables.describing import describe_table

        return describe_table(self)

    def diff(
        self,
        from_: DiffState,
        to: DiffState | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        sample: int = 10,
    ) -> TableDiff:
        """The rows in which two states differ: added, changed (by column), removed. `to` is the newest by default.

        A state is a version (a tag, a snapshot's number, `branch.tag`, `branch.snapshot` or a branch), a timestamp, a
        `Snapshot`, or keywords such as `{"watermark": 5}`; 0 is the table before its first snapshot. Rows are compared
        by primary key, or without one by how often they occur; in the newest columns of the table or branch of `to`, or
        only in `columns` of these. Only files that the states do not share are read, bucket by bucket, within
        `read.memory-budget`. `sample` is how many rows of each kind the result keeps; its `to_batches` gives all.
        Raises NotFoundError, InvalidRequestError.

        >>> found = table.diff("friday")
        >>> print(found.added, found.changed, found.removed)
        """
        from lakelog.filestore.system import diff_states

        return diff_states(self.store, from_, to, columns=columns, sample=sample)

    def history(self, *, limit: int | None = None) -> History:
        """The snapshots of the table and of its branches, newest first, with their tags and where branches began.

        With `limit`, only that many of each, and those that a tag names or a branch began at.

        >>> print(table.history(limit=10))
        """
        from lakelog.filestore.system import history_of

        return history_of(self.store, limit=limit)

    def changes(
        self,
        *,
        after: RangeName | None = None,
        up_to: RangeName | None = None,
        compare: str = "auto",
        columns: str | Sequence[str] | None = None,
        branch: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes after the state `after`, up to the state `up_to`; `_row_kind` is the first column.

        A state is a snapshot's number (0 before the first one), the name of a tag, a datetime or its string. With a
        changelog producer these are all changes with their old values, else the last change of each key; an overwrite
        without a changelog gives the resulting differences. A value-count table gives each row as often as it was
        inserted or deleted. Raises NotFoundError for a snapshot that does not exist yet, and for one whose changes are
        no longer kept: a range is never given in part.

        `compare="states"`, and between two tags `"auto"`, gives the net difference of the two states: one change per
        key, including deletes, in memory bounded by `read.memory-budget`; only the two states must still exist.
        `compare="rows"` gives the rows of the later state that are new or changed, each once, without `_row_kind`.
        `diff` counts what differs.

        >>> for batch in table.changes(after="friday", compare="states"):
        ...     print(batch.to_pylist())
        """
        from lakelog.catalog.tables.comparing import changed_batches

        found = changed_batches(self.store, compare, after=after, up_to=up_to, columns=columns, branch=branch)
        return ShownIterator(found, lambda: f"changes of {self.name} as Arrow batches; {_HOW_TO_ITERATE}")

    def to_pandas(self, **what: Unpack[Selection]) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas.

        >>> frame = table.to_pandas(columns=["id", "amount"])
        """
        if find_spec("pandas") is None:
            raise InvalidRequestError("to_pandas needs pandas: pip install pandas")
        frame: pd.DataFrame = self.store.to_arrow(**what).to_pandas()
        return frame

    def to_polars(self, **what: Unpack[Selection]) -> pl.LazyFrame:
        """The rows as a lazy polars frame: `collect()` reads what the query needs.

        >>> total = table.to_polars().select(pl.col("amount").sum()).collect()
        """
        from lakelog.filestore.verbs import to_polars

        return to_polars(self.store, **what)

    def to_duckdb(self, **what: Unpack[Selection]) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, whose queries read them as a stream.

        >>> table.to_duckdb().aggregate("day, sum(amount)").show()
        """
        from lakelog.filestore.verbs import to_duckdb

        return to_duckdb(self.store, **what)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        return self.store.__arrow_c_stream__(requested_schema)
