"""The reads of a table: rows, changes and descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack  # Any: the words of a read

from lakelog.common.html import ShownIterator
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.verb import verb

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from lakelog.catalog.names.read_words import Keys, Position, ReadWords
    from lakelog.catalog.tables.describing import TableDescription
    from lakelog.catalog.tables.following import FollowStart
    from lakelog.catalog.tables.scan import TableScan
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs import RangeName, SnapshotChoice
    from lakelog.filestore.system import DiffState, History, TableDiff
    from lakelog.protocol.writing import FreshReads
    from lakelog.streams.follower import ChangeStream
    from lakelog.streams.live_rows import LiveRows

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

    def at(
        self,
        *,
        fresh: bool = False,
        whole: bool = False,
        at_least: Position | None = None,
        timeout: float = 10.0,
        **which: Unpack[SnapshotChoice],
    ) -> TableScan:
        """A read of one state: its `to_arrow`, `count`, `lookup` and others read the same rows at each call.

        With `fresh` the state is the newest snapshot and everything that is committed in the table's log behind it, up
        to now; nothing is written for it. Without a log that is the newest snapshot. `whole` leaves out batches of
        streams that are in some buckets and not known to be in all. `at_least` is the `position` of another read, or
        the snapshot that a write has returned: the read waits for it, up to `timeout` seconds, so that a program sees
        what it has written. Without `fresh` the state is that of the other arguments, as in `snapshot`. In a `with`
        block its files do not expire.

        Raises UnavailableError when Kafka does not answer, or `at_least` is not reached in time; UnsupportedError for a
        fresh read of an eventual log, and behind changes of another engine; and like `snapshot`.

        >>> now = table.at(fresh=True)
        >>> print(now.count(), now.position)
        """
        from lakelog.catalog.tables.scan import scan_of

        fresh_reads = self._fresh_reads if fresh else None
        return scan_of(
            self.store, fresh_reads, fresh=fresh, whole=whole, at_least=at_least, timeout_seconds=timeout, **which
        )

    @cached_property
    def _fresh_reads(self) -> FreshReads[FileStoreTable] | None:
        """What this handle knows of the log; None for a table without one."""
        if self.log is None:
            return None
        from lakelog.protocol.access import require_kafka_client
        from lakelog.protocol.statements import target_of
        from lakelog.protocol.writing import FreshReads

        require_kafka_client()
        return FreshReads(self.store, target_of(self.log))

    def _read(self, what: ReadWords) -> tuple[FileStoreTable, dict[str, Any]]:
        """The file store that shows what a read names, and the words that are left for it."""
        words: dict[str, Any] = dict(what)
        if not (words.pop("fresh", False) or words.get("at_least") is not None):
            words.pop("at_least", None)
            return self.store, words
        scan, of_rows = self._scan(what)
        return scan.store, of_rows

    def _scan(self, what: ReadWords) -> tuple[TableScan, dict[str, Any]]:
        """The state that a read names, and the words that are left for it."""
        words: dict[str, Any] = {**what, "fresh": bool(what.get("fresh"))}
        of_rows: dict[str, Any] = {key: words.pop(key) for key in ("columns", "where") if key in words}
        return self.at(**words), of_rows

    def to_arrow(self, **what: Unpack[ReadWords]) -> pa.Table:
        """The rows as an Arrow table; without arguments all rows of the newest snapshot.

        With `fresh=True` also what the log has behind it, see `at`.

        >>> large = table.to_arrow(columns=["id"], where="amount > 10", tag="friday")
        """
        store, words = self._read(what)
        return store.to_arrow(**words)

    def to_batches(self, **what: Unpack[ReadWords]) -> Iterator[pa.RecordBatch]:
        """The rows in batches, for tables larger than memory. A fresh read keeps its files from expiry meanwhile.

        >>> rows = sum(batch.num_rows for batch in table.to_batches(snapshot_id=1))
        """
        if what.get("fresh"):
            scan, of_rows = self._scan(what)
            return scan.to_batches(**of_rows)
        store, words = self._read(what)
        return store.planned(**words).batches()

    def lookup(
        self,
        keys: Keys,
        *,
        columns: str | Sequence[str] | None = None,
        fresh: bool = False,
        at_least: Position | None = None,
    ) -> pa.Table:
        """The rows with these primary keys, in no order; a key that the table lacks has no row.

        A key has a value for each column of the primary key. Only files that may hold it are read. `fresh` and
        `at_least` are those of `at`. Raises InvalidRequestError for other columns and for values of other types,
        UnsupportedError for a table without primary key.

        >>> row = table.lookup({"id": 7, "day": "2026-01-31"}, fresh=True)
        """
        from lakelog.filestore.verbs import look_up

        if fresh and at_least is None and self._fresh_reads is not None:
            return look_up(self.store, keys, columns=columns, state_of=self._fresh_reads.of_buckets)
        if fresh or at_least is not None:
            return self.at(fresh=fresh, at_least=at_least).lookup(keys, columns=columns)
        return look_up(self.store, keys, columns=columns)

    @verb(panel=_LOOK, answer={"row_count": ""}, help={"fresh": "Also of what the log has behind the newest snapshot."})
    def count(
        self, *, where: str | Predicate | None = None, fresh: bool = False, **which: Unpack[SnapshotChoice]
    ) -> int:
        """The exact number of rows. With `where`, of those that meet a condition.

        Reads files only if metadata is not enough: with a condition, and for rows that are not merged yet. With `fresh`
        also of what the log has behind the newest snapshot.

        >>> large = table.count(where="amount > 10")
        """
        from lakelog.filestore.verbs import count_rows

        if fresh:
            return self.at(fresh=True, **which).count(where=where)
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

    def follow(
        self,
        *,
        start: FollowStart = "snapshot",
        consumer: str | None = None,
        until: Position | None = None,
        columns: str | Sequence[str] | None = None,
        where: str | Predicate | None = None,
    ) -> ChangeStream:
        """The rows of the newest snapshot, then each change once as it is committed, without end.

        `start` is `snapshot`; `latest`, for the changes from now on; a datetime with a zone, for those since then; or
        the `position` of a batch, of a fresh read or of a snapshot, for those behind it. It ends with `until`, a
        position, or `latest` for what the table has now. A batch is an Arrow table in `rows`, whose first column is
        `_row_kind`, with the `position` behind it: who stores that together with what was made of the rows goes on
        there, with each change once. It has `complete`, `snapshot` and `watermark` too, see `ChangeBatch`. `where`
        leaves out changes whose row does not pass, so what no longer passes is not taken back; `live` does that.

        With a `consumer`, a name such as `billing`, the table keeps the place: a later call with the name goes on
        there, whatever `start` says, and what is behind the place does not expire before `consumer.expiration-time`.
        The place is recorded once the next batch is asked for, at most once a second, and by `close`: after a kill some
        changes come again. A second process with the name stops the first one.

        Close it, or read it in a `with` block: until then the table keeps what it still has to read, a day at most.
        A table without a log is followed by its snapshots. Raises InvalidRequestError for the position of another
        table, NotFoundError and LogTruncatedError for changes that the table no longer has, UnavailableError.

        >>> with table.follow(start="latest", until="latest") as changes:
        ...     for batch in changes:
        ...         print(batch.to_arrow().to_pylist(), batch.position)
        """
        from lakelog.catalog.tables.following import follow

        return follow(self, start=start, consumer=consumer, until=until, columns=columns, where=where)

    def live(
        self,
        *,
        keys: Keys | None = None,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        rows_max: int = 1_000_000,
    ) -> LiveRows:
        """The rows by primary key in memory, kept as the table is by a thread that follows it.

        All rows, those with these `keys`, or those that pass `where`; more than `rows_max` are an error. For handlers
        of requests: `get(key)` asks neither the table nor Kafka, `wait(position)` waits for what was written. Close it
        when it is not needed any more. Raises UnsupportedError for a table without primary key, and like `follow`.

        >>> with table.live(columns=["amount"]) as rows:
        ...     print(rows.get({"id": 7, "day": "2026-01-31"}))
        """
        from lakelog.catalog.tables.following import live

        return live(self, keys=keys, where=where, columns=columns, rows_max=rows_max)

    def to_pandas(self, **what: Unpack[ReadWords]) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas.

        >>> frame = table.to_pandas(columns=["id", "amount"])
        """
        from lakelog.catalog.tables.frames import pandas_frame

        return pandas_frame(self.to_arrow(**what))

    def to_polars(self, **what: Unpack[ReadWords]) -> pl.LazyFrame:
        """The rows as a lazy polars frame: `collect()` reads what the query needs.

        >>> total = table.to_polars().select(pl.col("amount").sum()).collect()
        """
        from lakelog.filestore.verbs import to_polars

        store, words = self._read(what)
        return to_polars(store, **words)

    def to_duckdb(self, **what: Unpack[ReadWords]) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, whose queries read them as a stream.

        >>> table.to_duckdb().aggregate("day, sum(amount)").show()
        """
        from lakelog.filestore.verbs import to_duckdb

        store, words = self._read(what)
        return to_duckdb(store, **words)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        return self.store.__arrow_c_stream__(requested_schema)
