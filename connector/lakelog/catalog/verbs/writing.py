"""The writes of a table and changes of its columns: through its files, or with a log through log and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self, Unpack  # Any: values of parameters

from lakelog.common.errors import InvalidRequestError
from lakelog.warehouse.handle import TableHandle
from lakelog.warehouse.verb import Call, verb

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.logs.added_columns import Found
    from lakelog.catalog.names.durations import Duration
    from lakelog.catalog.verbs.table_merge import TableMerge
    from lakelog.filestore.alter import SchemaChange
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs import Restored, SnapshotChoice
    from lakelog.filestore.verbs import WriteMode
    from lakelog.filestore.write import RowKinds, Rows
    from lakelog.streams.writer import TableWriter

_FULL, _MINOR = "full", "minor"


def _compact_as_paimon(table: TableWrites, values: Mapping[str, Any]) -> Snapshot | None:
    """As Paimon's procedure does: all runs of every bucket, or with the strategy `minor` those that are due."""
    strategy = values["compact_strategy"] or (_FULL if values.get("full", True) else _MINOR)
    if strategy not in (_FULL, _MINOR):
        raise InvalidRequestError(f"compact_strategy is {strategy!r}, expected {_FULL} or {_MINOR}")
    return table.compact(full=strategy == _FULL, where=values.get("where"))


class TableWrites(TableHandle):
    """The verbs that write rows and columns."""

    def write(
        self,
        rows: Rows,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        row_kinds: RowKinds | None = None,
        merge_schema: bool = False,
        change_tracking: bool | None = None,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot.

        `rows` are an Arrow table, record batch or reader, a polars DataFrame or LazyFrame, a pandas DataFrame, a DuckDB
        relation, or anything with `__arrow_c_stream__` or `__arrow_c_array__`. Readers, lazy frames and relations are
        written as their rows arrive, within `write-buffer-size`. Columns are found by name, in any order. A nullable
        column that rows lack becomes null, also in rows of the same keys that exist, but for partial-update tables:
        `update` and `merge` change some columns and keep the others. With `merge_schema`, columns that the table lacks
        are first added to it, nullable, in one schema change, which stays even if the write fails.

        Each row is an upsert, unless `row_kinds` or a column `_row_kind` names another kind: `+I`, `-U`, `+U`, `-D`, or
        the numbers 0 to 3; one for all rows or one per row.

        `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, the rows of the
        partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions that the
        new rows are in. Afterwards the written buckets are compacted and old snapshots expire if that is due, unless
        the table is write-only.
        On a table with a log a write is a batch statement: rows are held in memory, an overwrite deletes the old rows
        in the log too, and append-only tables take no overwrite. `change_tracking` False writes only the files, and the
        log says so (FLIP-188); by default the option `change-tracking` of the table decides.
        Raises InvalidRequestError for rows that do not fit, ConflictError for an overwrite of a table without a log
        that another writer changed meanwhile, UnknownOutcomeError for a statement whose outcome the next writer
        decides.

        >>> table.write(pl.DataFrame({"id": [7], "day": ["2026-02-01"], "amount": [70]}))
        >>> table.write(rows, mode="overwrite", where="day = '2026-01-31'")
        """
        from lakelog.catalog.logs.statements import check_tracking_choice, run_statement
        from lakelog.filestore.verbs import replaced_by
        from lakelog.filestore.write import overwrite_plan, parsed_kinds, row_source, write_plan

        check_tracking_choice(self, change_tracking)
        source, kinds = row_source(rows), parsed_kinds(row_kinds)
        if merge_schema:
            replaced_by(self.store, mode, where)
            self.store = self._with_new_columns(source.columns).store
        if self.log is None:
            return self.store.write(source, mode=mode, where=where, kinds=kinds)
        files = self.store
        replaces = replaced_by(files, mode, where)
        if replaces is None:
            operation, plan = "INSERT", write_plan(files, source, kinds)
        else:
            operation, plan = "OVERWRITE", overwrite_plan(files, source, kinds, replaces)
        snapshot = run_statement(self, operation, plan, commits_nothing=True, change_tracking=change_tracking)
        assert snapshot is not None, "a write of nothing makes a snapshot too"
        return snapshot

    def writer(
        self,
        name: str,
        *,
        linger: Duration = "0 ms",
        snapshot_interval: Duration | None = None,
        memory_max: int | str = "64 mb",
    ) -> TableWriter:
        """A writer for a service: many small writes, each whole or not there, also after a kill.

        Threads and tasks share it. Give each process a `name` of its own, such as `orders-1`, and the same one after a
        restart: what an earlier process of the name has left is finished then, and a second process with the name stops
        the first one. A write returns once the log has it, or on a table without a log the snapshot. With `linger`,
        such as `5 ms`, writes wait so long for others that become one transaction, or snapshot, with them.

        On a table with a log one snapshot takes in all writes since the last one: after `snapshot_interval`, by default
        the table's `snapshot.interval`, or 1 s without one; and when it is closed. Reads with `fresh` see them before.
        At most `memory_max` of rows wait to be written; then calls wait. Raises UnsupportedError for an eventual log.

        >>> with table.writer("orders-1") as writer:
        ...     writer.write({"id": 7, "day": "2026-02-01", "amount": 70})
        """
        from lakelog.catalog.tables.writers import open_writer

        return open_writer(self, name, linger=linger, snapshot_interval=snapshot_interval, memory_max=memory_max)

    def delete(self, where: str | Predicate) -> Snapshot | None:
        """Delete the rows that meet a condition, in one snapshot; returns None when no row does.

        The rows are read, must fit in memory, and are written as retractions; the files of an append-only table that
        hold such rows are written again without them. If another commit comes first, the rows are read again. On a
        table with a log it is a batch statement with one delete per row in the log. Without a log it raises
        UnsupportedError for tables whose rows a retraction does not delete, such as those with other merge engines than
        deduplicate; ConflictError when other writers commit all the time.

        >>> table.delete("amount < 10 AND day = '2026-01-31'")
        """
        from lakelog.catalog.logs.statements import recording, run_statement

        if self.log is None:
            from lakelog.filestore.verbs import delete

            return delete(recording(self.store, "DELETE"), where)
        from lakelog.filestore.predicate import required_predicate
        from lakelog.filestore.write import delete_plan

        return run_statement(self, "DELETE", delete_plan(self.store, required_predicate(where)))

    def update(self, set: Mapping[str, object], where: str | Predicate | None = None) -> Snapshot | None:
        """Set columns in the rows that meet a condition, or in all, in one snapshot; returns None when no row does.

        `set` is {column: value}: a plain value, or a polars expression over the old row, such as `pl.col("n") + 1`. The
        rows are read and must fit in memory. Columns of the primary key cannot be updated. Raises InvalidRequestError
        for columns and values that do not fit, UnsupportedError for append-only tables with a log, and for tables
        without one whose merge engine combines the rows of a key.

        >>> table.update({"amount": pl.col("amount") * 2}, where="id = 1")
        """
        from lakelog.catalog.logs.statements import run_statement
        from lakelog.filestore.predicate import predicate_of
        from lakelog.filestore.write import update_plan

        return run_statement(self, "UPDATE", update_plan(self.store, set, predicate_of(where)))

    def merge(self, rows: Rows, *, on: str | Sequence[str] | None = None) -> TableMerge:
        """Begin a merge of rows into the table; add its clauses, then call `execute()`.

        `rows` are as in `write`. A source row and a row of the table match where their columns `on` are equal, by
        default those of the primary key; a null equals nothing. The rows of both must fit in memory. Raises
        InvalidRequestError without `on` for a table without a primary key.

        >>> table.merge(rows).when_matched_update_all().when_not_matched_insert_all().execute()
        """
        from lakelog.catalog.verbs.table_merge import TableMerge
        from lakelog.filestore.write import MergeClauses, row_source

        columns = self.schema.primary_keys if on is None else (on,) if isinstance(on, str) else tuple(on)
        if not columns:
            raise InvalidRequestError(
                f"table {self.name} has no primary key: name the columns that match rows with on="
            )
        return TableMerge(_table=self, _source=row_source(rows), _on=columns, _clauses=MergeClauses())

    def truncate(self) -> Snapshot | None:
        """Delete all rows, in one snapshot; returns None when there are none. Older snapshots still show them.

        In a log each row becomes a delete.

        >>> table.truncate()
        """
        from lakelog.catalog.logs.statements import recording, run_statement
        from lakelog.filestore.write import truncate_plan

        if self.log is None:
            empty = self.schema.arrow_schema.empty_table()
            files = recording(self.store, "TRUNCATE")
            return None if files.snapshot() is None else files.write(empty, mode="overwrite")
        return run_statement(self, "TRUNCATE", truncate_plan(self.store))

    @verb(
        calls=(
            Call(
                name="compact",
                takes="compact_strategy, where",
                also={"compact_strategy": "full, which is the default, or minor."},
                run=_compact_as_paimon,
            ),
        ),
        help={
            "full": "Merge all files, not only those that are due.",
            "where": "A condition on partition columns: other partitions stay as they are.",
        },
        answer={"snapshot_id": "id"},
        nothing="nothing to merge",
        panel="Upkeep",
    )
    def compact(self, *, full: bool = False, where: str | Predicate | None = None) -> Snapshot | None:
        """Merge the files that are due by the table's options; then expire. With `full` all runs of every bucket.

        With `where`, a condition on partition columns, only the partitions that meet it. Returns None when nothing was
        due. Raises ConflictError when another compaction of the same files came first.

        >>> table.compact(full=True, where="day = '2026-01-30'")
        """
        return self.store.compact(full=full, where=where)

    @verb(
        calls=(
            Call(
                name="restore",
                takes="version, snapshot=snapshot_id, tag, timestamp, watermark, dry_run, renew_log, rewind_writers",
            ),
        ),
        answer={
            "snapshot_id": "snapshot.id",
            "rows_added": "rows_added",
            "rows_removed": "rows_removed",
            "rows_changed": "rows_changed",
            "target_id": "target.id",
            "base_id": "base.id",
            "files_added": "files_added",
            "files_removed": "files_removed",
            "rewinds_writers": "rewinds_writers",
            "renews_log": "renews_log",
            "columns_missing": "columns_missing",
        },
        parts={"writers": lambda restored: [asdict(one) for one in restored.writers]},
        panel="History",
    )
    def restore(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        renew_log: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Restored:
        """Bring an older state back in a new snapshot. It has the rows of the named one, in the table's newest columns.

        The state is named by `snapshot_id`, `tag`, `timestamp`, `watermark` or `version`. With `dry_run` nothing is
        changed; the result says what would change: rows, files, writers. The snapshots in between stay. Streams that
        write the table continue with their next batch, and batches that were undone are not written again; with
        `rewind_writers` the table accepts them again: stop the streams before, and set them back. Readers that follow
        the changes of the table get those of the restore. What others commit meanwhile is undone too.

        On a table with a log it is a batch statement: the changes are in the log, and what others log meanwhile stays
        unless the restore changes the same key. With `renew_log` the log is ended, the files are restored, and the
        table gets a log with a new topic: stop streams that write before; streams that read continue with the files
        when they are started again. `rewind_writers` needs `renew_log`, and so does a restore for which more than 256
        MiB of files differ: without it such a call is refused. If a call was cut off, make it again.
        Raises NotFoundError for a state that has expired, InvalidRequestError for a state whose files have another
        number of buckets or that holds a partial batch, ConflictError when other writers commit all the time.

        >>> table.restore(tag="friday")
        """
        from lakelog.catalog.refs.restoring import restore

        return restore(self, which, rewind_writers=rewind_writers, dry_run=dry_run, renew_log=renew_log)

    def alter(self, *changes: SchemaChange) -> Self:
        """Change columns, options or comments, all or none; returns the table with the new schema.

        `changes` are values such as `AddColumn` and `SetOption` of `lakelog.catalog`. No row is rewritten. This handle
        and running streams keep the schema that they started with. In a table with a log, columns can be added, moved
        and dropped, and comments and options can be set; other changes would make the records in its log unreadable.
        Raises InvalidRequestError and UnsupportedError. A type that is a string means what it means in DDL.

        >>> table = table.alter(AddColumn("note", "STRING"), SetOption("snapshot.num-retained.max", "50"))
        """
        from lakelog.catalog.columns.ddl import with_ddl_types
        from lakelog.catalog.logs.altering import alter_table

        schema = alter_table(self.store, self.warehouse, with_ddl_types(changes), kafka=self.kafka)
        return self._of(replace(self.store, schema=schema))

    def _with_new_columns(self, found: pa.Schema, **how: Unpack[Found]) -> Self:
        """The table with the new columns of `found`, see `add_new_columns`."""
        from lakelog.catalog.logs.added_columns import add_new_columns

        schema = add_new_columns(self.store, self.warehouse, found, kafka=self.kafka, **how)
        return self._of(replace(self.store, schema=schema))
