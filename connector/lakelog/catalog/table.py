"""One table: its files, and its log where it has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.identifier import Identifier
from lakelog.catalog.keywords import naming_keywords
from lakelog.catalog.upkeep import Age, ExpiredSnapshots, expire_snapshots, remove_orphan_files
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.io.path_forms import warehouse_of
from lakelog.filestore.schema.paths import BRANCH_INFIX, MAIN_BRANCH
from lakelog.protocol.table_log import TableLog, log_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from lakelog.catalog.added_columns import Found
    from lakelog.catalog.describing import PartitionDescription, TableDescription
    from lakelog.catalog.statements import TableMerge
    from lakelog.catalog.tagging import Kept
    from lakelog.common.timestamps import Timestamp
    from lakelog.filestore.alter.schema_changes import SchemaChange
    from lakelog.filestore.commit.outcomes import FoundCommit
    from lakelog.filestore.expire.orphans import Orphans
    from lakelog.filestore.metadata.consumers import Consumer
    from lakelog.filestore.metadata.snapshot import Snapshot
    from lakelog.filestore.metadata.table_files import TableFile
    from lakelog.filestore.metadata.tag_file import Tag
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.read.change_source import ChangeSource
    from lakelog.filestore.readable_table import Selection
    from lakelog.filestore.refs.branch_merge import BranchMerge
    from lakelog.filestore.refs.branches import Branch
    from lakelog.filestore.refs.ranges import RangeName
    from lakelog.filestore.refs.restore import Restored
    from lakelog.filestore.refs.rollback import RolledBack
    from lakelog.filestore.refs.travel import SnapshotChoice
    from lakelog.filestore.schema.schema import TableSchema
    from lakelog.filestore.system.history import History
    from lakelog.filestore.system.system_table import SystemTable
    from lakelog.filestore.system.table_diff import State, TableDiff
    from lakelog.filestore.table import FileStoreTable, WriteMode
    from lakelog.filestore.write.row_kinds import RowKinds
    from lakelog.filestore.write.row_source import Rows
    from lakelog.protocol.health import Finding, HealthReport
    from lakelog.protocol.log_transactions import EndedTransactions, LogTransaction
    from lakelog.protocol.log_verify import LogVerification


@naming_keywords
class Table:
    """A table of a warehouse. Reads show the newest snapshot, or the one that arguments name; they need no Kafka."""

    def __init__(
        self,
        files: FileStoreTable,
        *,
        identifier: Identifier | None = None,
        kafka: Mapping[str, str] | None = None,
        bootstrap_servers: str | None = None,
        is_to_be_mended: bool = False,
    ) -> None:
        """Join the files of a table with the log that its options name.

        `kafka` are the user's own settings of Kafka clients, `bootstrap_servers` the brokers for a log that is added.
        Raises OptionError for a table with settings that no table may hold; with `is_to_be_mended` only when its log is
        used, so that the settings can be removed.
        """
        self._files = files
        self.identifier = identifier or Identifier.of_path(files.path)
        self.kafka = dict(kafka or {})
        self._bootstrap_servers = bootstrap_servers
        if not is_to_be_mended:
            self.log  # noqa: B018  # raises

    @cached_property
    def log(self) -> TableLog | None:
        """The table's log; None for a table without one, and for a branch whose schema names the table's."""
        if self._files.has_foreign_log:
            return None
        return log_of(self._files.schema, self.warehouse, path=self._files.path, kafka=self.kafka)

    @property
    def path(self) -> str:
        """The table's folder."""
        return self._files.path

    @property
    def name(self) -> str:
        """`database.table`, or the folder for a table outside of a warehouse; of a branch with `$branch_<name>`."""
        branch = self._files.branch
        return f"{self.identifier or self.path}{'' if branch == MAIN_BRANCH else f'{BRANCH_INFIX}{branch}'}"

    @property
    def warehouse(self) -> str:
        """The folder of the table's warehouse; the folder that holds the table where there is no warehouse."""
        return warehouse_of(self.path)

    @property
    def schema(self) -> TableSchema:
        """The schema that this table handle was opened with."""
        return self._files.schema

    @property
    def uuid(self) -> str:
        """The table's identity; a copied folder has that of its original until `new_identity` is called."""
        return self._files.uuid

    def snapshots(self, *, branch: str | None = None) -> Iterator[Snapshot]:
        """The snapshots that have not expired, oldest first, of the table or of a branch."""
        manager = self._files.on_branch(branch).snapshots
        return (manager.get(snapshot_id) for snapshot_id in manager.ids())

    def snapshot(self, **which: Unpack[SnapshotChoice]) -> Snapshot | None:
        """The newest snapshot, or the one that the arguments name; None for a table without snapshots.

        Raises NotFoundError for a snapshot, tag or branch that does not exist, and for a time before the oldest one.
        """
        return self._files.snapshot(**which)

    def to_arrow(self, **what: Unpack[Selection]) -> pa.Table:
        """The rows as an Arrow table; without arguments all rows of the newest snapshot."""
        return self._files.to_arrow(**what)

    def to_batches(self, **what: Unpack[Selection]) -> Iterator[pa.RecordBatch]:
        """The rows piece by piece, for tables larger than memory."""
        return self._files.to_batches(**what)

    def count(self, *, where: str | Predicate | None = None, **which: Unpack[SnapshotChoice]) -> int:
        """The exact number of rows, or of the rows that meet a condition.

        Reads files only where metadata are not enough: with a condition, and where rows are not merged yet.
        """
        return self._files.count(where=where, **which)

    def describe(self) -> TableDescription:
        """The table at its newest snapshot: keys, files, log, watermark and change tracking. Asks no Kafka.

        Source: FLIP-188, "DESCRIBE".
        """
        from lakelog.catalog.describing import describe_table

        return describe_table(self)

    def describe_partitions(self) -> list[PartitionDescription]:
        """The partitions of the newest snapshot, in order: files, last change, whether they are compacted and tracked.

        A table without partition columns is one partition. Source: FLIP-188, "DESCRIBE".
        """
        from lakelog.catalog.describing import describe_partitions

        return describe_partitions(self)

    def files(self, **which: Unpack[SnapshotChoice]) -> list[TableFile]:
        """The data files of a snapshot: path, partition, bucket, level, rows, bytes and key range of each."""
        return self._files.files(**which)

    def system_table(
        self, name: str, *, after: int | None = None, up_to: int | None = None, **which: Unpack[SnapshotChoice]
    ) -> SystemTable:
        """A system table: what the table is made of, with Paimon's columns; `to_arrow`, `to_polars` read it.

        `name` is one of `snapshots`, `schemas`, `options`, `files`, `manifests`, `tags`, `branches`, `partitions`,
        `buckets`, `consumers`, `audit_log`, `binlog`, `ro`, `statistics`, `aggregation_fields`, `file_key_ranges`,
        `row_tracking` and `table_indexes`. Those of files and rows show the newest snapshot, or the one that the
        arguments name; with `branch` all are those of a branch. `audit_log` and `binlog` show with `after` and `up_to`
        the changes after one snapshot, up to and with another one, deletes among them. Timestamps are in UTC.
        Raises NotFoundError for an unknown name, InvalidRequestError for an argument that it does not take.

            table.system_table("files").to_polars().collect()
        """
        return self._files.system_table(name, after=after, up_to=up_to, **which)

    def diff(
        self, from_: State, to: State | None = None, *, columns: str | Sequence[str] | None = None, sample: int = 10
    ) -> TableDiff:
        """The rows in which two states differ, by default up to the newest one: added, changed by column, removed.

        A state is a version (a tag, a snapshot's number, `branch.tag`, `branch.snapshot` or a branch), a timestamp, a
        `Snapshot`, or keywords such as `{"watermark": 5}`; 0 is the table before its first snapshot. Rows are compared
        by primary key, without one by how often they are there; in the columns of `to`, or in `columns` alone. Only
        files that the states do not share are read, bucket by bucket, within `read.memory-budget`. `sample` is how
        many rows of each kind the result keeps; its `to_batches` gives all. Raises NotFoundError, InvalidRequestError.
        """
        return self._files.diff(from_, to, columns=columns, sample=sample)

    def history(self, *, limit: int | None = None) -> History:
        """The snapshots of the table and of its branches, newest first, with their tags and where branches began.

        With `limit` only so many of each, and those that a tag names or a branch began at.
        """
        return self._files.history(limit=limit)

    def changes(
        self,
        *,
        after: RangeName | None = None,
        up_to: RangeName | None = None,
        source: ChangeSource | str = "auto",
        columns: str | Sequence[str] | None = None,
        branch: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes after the state `after`, up to the state `up_to`; `_row_kind` is the first column.

        A state is a snapshot's number (0 before the first one), the name of a tag, a datetime or its string. With a
        changelog producer these are all changes with their old values, else the last change of each key; an overwrite
        without changelog gives what it made different. A value-count table gives each row as often as it was inserted
        or deleted. Raises NotFoundError for a snapshot that is not there yet, and for one whose changes are not kept
        any more: a range is never given in part.

        With the source `difference`, and between two tags, it is the net difference of the two states: one change a
        key, deletes too, in memory bounded by `read.memory-budget`; only the two states must be kept.
        """
        return self._files.changes(after=after, up_to=up_to, source=source, columns=columns, branch=branch)

    def rows_between(
        self,
        after: RangeName | None = None,
        up_to: RangeName | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        branch: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are new or changed from the state `after` to the state `up_to`, each once; see `changes`."""
        return self._files.rows_between(after, up_to, columns=columns, branch=branch)

    def to_pandas(self, **what: Unpack[Selection]) -> pd.DataFrame:
        """The rows as a pandas frame. Needs pandas."""
        if find_spec("pandas") is None:
            raise InvalidRequestError("to_pandas needs pandas: pip install pandas")
        frame: pd.DataFrame = self._files.to_arrow(**what).to_pandas()
        return frame

    def to_polars(self, **what: Unpack[Selection]) -> pl.LazyFrame:
        """The rows as a lazy polars frame: `collect()` reads what the query needs."""
        return self._files.to_polars(**what)

    def to_duckdb(self, **what: Unpack[Selection]) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, whose queries read them as a stream."""
        return self._files.to_duckdb(**what)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows of the newest snapshot for libraries that take Arrow streams: polars, pyarrow, DuckDB and others."""
        return self._files.__arrow_c_stream__(requested_schema)

    def write(
        self,
        rows: Rows,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        row_kinds: RowKinds | None = None,
        merge_schema: bool = False,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot.

        `rows` are an Arrow table, record batch or reader, a polars DataFrame or LazyFrame, a pandas DataFrame, a DuckDB
        relation, or anything with `__arrow_c_stream__` or `__arrow_c_array__`. Readers, lazy frames and relations are
        written as their rows come, in the memory of `write-buffer-size`. Columns are found by name, in any order; a
        nullable column that rows lack is null. With `merge_schema` columns that the table lacks are added to it first,
        nullable, in one schema change, which stays when the write fails.

        Each row is an upsert, unless `row_kinds` or a column `_row_kind` names another kind: `+I`, `-U`, `+U`, `-D`, or
        the numbers 0 to 3; one for all rows or one a row.

        `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, those of the
        partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions that the
        new rows are in. Afterwards the written buckets are compacted and old snapshots expire where that is due, unless
        the table is write-only.
        On a table with a log it is a batch statement: rows are held in memory, an overwrite deletes the old rows in the
        log too, and append-only tables take none.
        Raises InvalidRequestError for rows that do not fit, ConflictError for an overwrite of a table without a log
        that another writer changed meanwhile, UnknownOutcomeError for a statement that the next writer decides.
        """
        from lakelog.filestore.write.row_kinds import parsed_kinds
        from lakelog.filestore.write.row_source import row_source

        source, kinds = row_source(rows), parsed_kinds(row_kinds)
        if merge_schema:
            self._files._replaced(mode, where)
            self._files = self._with_new_columns(source.columns)._files
        if self.log is None:
            return self._files.write(source, mode=mode, where=where, kinds=kinds)
        from lakelog.catalog.statements import run_statement
        from lakelog.filestore.write.changing import overwrite_plan, write_plan

        files = self._files
        replaces = files._replaced(mode, where)
        if replaces is None:
            snapshot = run_statement(self, "INSERT", write_plan(files, source, kinds), commits_nothing=True)
        else:
            plan = overwrite_plan(files, source, kinds, replaces)
            snapshot = run_statement(self, "OVERWRITE", plan, commits_nothing=True)
        assert snapshot is not None, "a write of nothing makes a snapshot too"
        return snapshot

    def delete(self, where: str | Predicate) -> Snapshot | None:
        """Delete the rows that meet a condition, in one snapshot; None when no row does.

        The rows are read, must fit in memory, and are written as retractions; when another commit came first, they are
        read again. On a table with a log it is a batch statement, one delete a row in the log. Without a log it raises
        UnsupportedError for tables whose rows a retraction does not delete, such as append-only ones and those of other
        merge engines than deduplicate; ConflictError when other writers commit all the time.
        """
        if self.log is None:
            return self._files.delete(where)
        from lakelog.catalog.statements import run_statement
        from lakelog.filestore.predicate import required_predicate
        from lakelog.filestore.write.changing import delete_plan

        return run_statement(self, "DELETE", delete_plan(self._files, required_predicate(where)))

    def update(self, set: Mapping[str, object], where: str | Predicate | None = None) -> Snapshot | None:
        """Give columns new values in the rows that meet a condition, or in all, in one snapshot; None when none does.

        `set` is {column: value}: a plain value, or a polars expression over the old row, such as `pl.col("n") + 1`. The
        rows are read and must fit in memory. Columns of the primary key stay as they are. Raises InvalidRequestError
        for columns and values that do not fit, UnsupportedError for append-only tables, and for tables without a log
        whose merge engine combines the rows of a key.
        """
        from lakelog.catalog.statements import run_statement
        from lakelog.filestore.predicate import predicate_of
        from lakelog.filestore.write.changing import update_plan

        return run_statement(self, "UPDATE", update_plan(self._files, set, predicate_of(where)))

    def merge(self, rows: Rows, *, on: str | Sequence[str] | None = None) -> TableMerge:
        """Begin a merge of rows into the table; name its clauses, then call `execute()`.

        `rows` are as in `write`. A source row and a row of the table match where their columns `on` are equal, by
        default those of the primary key; a null equals nothing. The rows of both must fit in memory. Raises
        InvalidRequestError without `on` and primary key.

            table.merge(rows).when_matched_update_all().when_not_matched_insert_all().execute()
        """
        from lakelog.catalog.statements import TableMerge
        from lakelog.filestore.write.merging import MergeClauses
        from lakelog.filestore.write.row_source import row_source

        columns = self.schema.primary_keys if on is None else (on,) if isinstance(on, str) else tuple(on)
        if not columns:
            raise InvalidRequestError(
                f"table {self.name} has no primary key: name the columns that match rows with on="
            )
        return TableMerge(_table=self, _source=row_source(rows), _on=columns, _clauses=MergeClauses())

    def truncate(self) -> Snapshot | None:
        """Delete all rows, in one snapshot; None when there is none. Older snapshots still show them.

        In the log of a table each row is a delete.
        """
        from lakelog.filestore.write.changing import delete_plan

        if self.log is None:
            empty = self.schema.arrow_schema.empty_table()
            return None if self._files.snapshot() is None else self._files.write(empty, mode="overwrite")
        from lakelog.catalog.statements import run_statement

        return run_statement(self, "TRUNCATE", delete_plan(self._files, None))

    def restore(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        max_bytes: int | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> Restored:
        """Bring an older state back: a new snapshot has the rows of the named one, in the table's newest columns.

        It is named by `snapshot_id`, `tag`, `timestamp`, `watermark` or `version`. With `dry_run` nothing is changed;
        the result says what would be: rows, files, writers. The snapshots between stay. Streams that write the table go
        on with their next batch, and batches that were undone do not come again; with `rewind_writers` the table takes
        them again: stop the streams before, and set them back. Who follows the changes of the table gets those of the
        restore. What others commit meanwhile is undone too.

        On a table with a log it is a batch statement: the changes are in the log, and what others log meanwhile stays
        where no change is of the same key. Where files of more than `max_bytes` differ, by default 256 MiB, or with
        `rewind_writers`, the log is ended, the files are restored, and the table gets a log with a new topic: stop
        streams that write before; streams that read go on, over the files, when they are started again. A call that was
        cut off is made again.
        Raises NotFoundError for a state that has expired, InvalidRequestError for one whose files have another number
        of buckets or that holds a batch in part, ConflictError when other writers commit all the time.
        """
        from lakelog.catalog.restoring import restore

        return restore(self, which, rewind_writers=rewind_writers, dry_run=dry_run, max_bytes=max_bytes)

    def rollback(
        self, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
    ) -> RolledBack:
        """Delete the snapshots after the named one, with their changelogs and tags; with `dry_run` only say which.

        It is named as in `restore`, which deletes nothing and is to be preferred. Streams that write the table go on
        with their next batch; with `rewind_writers` the table takes their batches since then again. A call continues
        one that was cut off. The ids are given again: streams and consumers that have read deleted snapshots fail. Stop
        writers of other engines before. Data files are deleted by `remove_orphan_files`.
        Raises InvalidRequestError for a table with a log, NotFoundError for a state that has expired.
        """
        return self._files.rollback(rewind_writers=rewind_writers, dry_run=dry_run, **which)

    def drop_partitions(self, where: str | Predicate) -> Snapshot | None:
        """Delete the partitions that meet a condition on partition columns; None when no partition does.

        On a table with a log it is a batch statement, one delete a row in the log. Raises InvalidRequestError for a
        condition on other columns, ConflictError for a table without a log that changed meanwhile.
        """
        if self.log is None:
            return self._files.drop_partitions(where)
        from lakelog.catalog.statements import run_statement
        from lakelog.filestore.write.changing import drop_plan

        choose = self._files._partitions_where(where).matching
        return run_statement(self, "DROP PARTITION", drop_plan(self._files, choose))

    def expire_partitions(self) -> Snapshot | None:
        """Delete the partitions that are older than `partition.expiration-time`; None when no partition is.

        Partitions whose values are not times stay. Raises as `drop_partitions`, and InvalidRequestError without the
        option.
        """
        if self.log is None:
            return self._files.expire_partitions()
        from lakelog.catalog.statements import run_statement
        from lakelog.filestore.write.changing import drop_plan

        return run_statement(self, "EXPIRE PARTITIONS", drop_plan(self._files, self._files._expired_partitions()))

    def compact(self, *, full: bool = False) -> Snapshot | None:
        """Merge the runs that are due by the table's options, or with `full` all runs of every bucket; then expire.

        None when nothing was due. Raises ConflictError when another compaction of the same files came first.
        """
        return self._files.compact(full=full)

    def rescale(self, buckets: int) -> Table:
        """Change the number of buckets, and give the changed table. Every row is rewritten.

        Writers that opened the table before are refused afterwards. A call continues a rescale that was cut off. A log
        goes on in a new topic with as many partitions: streams that write or read the table end with an error, and
        continue exactly once when they are started again. The older topic stays for those that have not read it to its
        end, until `drop_ended_logs`, or with the table.
        Raises InvalidRequestError and UnsupportedError for tables whose rows cannot move, and those with
        `log.consistency=eventual`; ConflictError when other writers commit all the time, or a stream writes the table;
        NotFoundError without the topic of a log, see `renew_log`; UnavailableError.
        """
        if self.log is None:
            return self._of(self._files.rescale(buckets))
        from lakelog.catalog.log_life import identifier_for_topics, rescale_log

        name = identifier_for_topics(self.identifier, self.path, self._files.branch)
        return self._of(rescale_log(self._files, name, buckets, kafka=self.kafka))

    def expire_snapshots(
        self, *, retain_max: int | None = None, retain_min: int | None = None, older_than: Age | None = None
    ) -> ExpiredSnapshots:
        """Delete snapshots that are too many or too old, and the files that only they name; gives the deleted ones.

        At least `retain_min` and at most `retain_max` snapshots stay, and between the two those that are not
        `older_than`: a timedelta, a duration such as `2 h`, or a datetime. By default the table's options decide. Files
        that a consumer, a tag, a branch or a newer snapshot needs are kept. In the log of a table, records are deleted
        that are older than `log.retention` and needed by no snapshot and no stream. Raises InvalidRequestError for
        bounds that cannot both hold, UnavailableError without Kafka.
        """
        return expire_snapshots(
            self._files, self.log, retain_max=retain_max, retain_min=retain_min, older_than=older_than
        )

    def remove_orphan_files(
        self, *, older_than: Age = timedelta(days=1), dry_run: bool = True, allow_young: bool = False
    ) -> Orphans:
        """Find the files that no snapshot, changelog, tag, branch or log names; without `dry_run` delete them.

        Only files that were last changed before `older_than` count: a timedelta, a duration such as `2 d`, or a
        datetime. Raises InvalidRequestError for an age below an hour without `allow_young`, which states that no
        writer runs; UnavailableError for a table with a log whose Kafka does not answer.
        """
        from lakelog.catalog.branching import logs_of_lines

        return remove_orphan_files(
            self._files, logs_of_lines(self), older_than=older_than, dry_run=dry_run, allow_young=allow_young
        )

    def create_tag(
        self, name: str, *, time_retained: Kept | None = None, replace: bool = False, **which: Unpack[SnapshotChoice]
    ) -> Tag:
        """Give a snapshot a name, under which it is read when it has expired; its files are kept.

        By default it is the newest one; `snapshot_id`, `timestamp`, `watermark`, `tag` and `branch` name another. With
        `time_retained`, a timedelta or a duration such as `30 d`, the tag expires that long after now. With `replace`
        an existing tag of this name is replaced. A tag keeps the state of the writers and the log offsets, and no
        record of the log. Raises InvalidRequestError for a name that is a number or cannot be a file's, ConflictError
        for a tag that exists, NotFoundError for a snapshot that does not, and for one that expires meanwhile.
        """
        from lakelog.catalog.tagging import create_tag

        return create_tag(self._files, name, time_retained=time_retained, replaces=replace, **which)

    def replace_tag(self, name: str, *, time_retained: Kept | None = None, **which: Unpack[SnapshotChoice]) -> Tag:
        """Let an existing tag keep another snapshot, see `create_tag`. Raises NotFoundError for an unknown tag."""
        return self.create_tag(name, time_retained=time_retained, replace=True, **which)

    def rename_tag(self, name: str, new_name: str, *, branch: str | None = None) -> Tag:
        """Give a tag another name. Raises NotFoundError for an unknown tag, ConflictError for a name that is taken."""
        from lakelog.filestore.refs.tags import rename_tag

        return rename_tag(self._files.on_branch(branch), name, new_name)

    def delete_tag(self, name: str, *, branch: str | None = None) -> None:
        """Delete a tag, and the files that nothing else needs. Raises NotFoundError for an unknown tag."""
        from lakelog.filestore.refs.tags import drop_tag

        drop_tag(self._files.on_branch(branch), name)

    def tags(self, *, branch: str | None = None) -> list[Tag]:
        """The tags of the table or of a branch, by their snapshots."""
        from lakelog.filestore.refs.tags import tags_of

        return tags_of(self._files.on_branch(branch))

    def tag(self, name: str, *, branch: str | None = None) -> Tag:
        """One tag. Raises NotFoundError, naming the tags."""
        return self._files.on_branch(branch).snapshots.tag(name)

    def has_tag(self, name: str, *, branch: str | None = None) -> bool:
        """Whether there is a tag of this name."""
        return self._files.on_branch(branch).snapshots.find_tag(name) is not None

    def previous_tag(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the largest snapshot before that of the tag `name`; None for the oldest."""
        from lakelog.filestore.refs.tags import previous_tag

        return previous_tag(self._files.on_branch(branch), name)

    def next_tag(self, name: str, *, branch: str | None = None) -> Tag | None:
        """The tag of the smallest snapshot behind that of the tag `name`; None for the youngest."""
        from lakelog.filestore.refs.tags import next_tag

        return next_tag(self._files.on_branch(branch), name)

    def expire_tags(self, *, branch: str | None = None) -> list[str]:
        """Delete the tags whose `time_retained` is over; gives their names. Writers do so after their commits too."""
        from lakelog.filestore.refs.tags import expire_tags

        return expire_tags(self._files.on_branch(branch))

    def consumers(self) -> list[Consumer]:
        """The consumers of the table: no snapshot that one of them has not read expires."""
        return self._files.consumers()

    def reset_consumer(self, consumer_id: str, next_snapshot: int) -> None:
        """Set the next snapshot of a consumer, or create it. Raises InvalidRequestError for an expired snapshot."""
        self._files.reset_consumer(consumer_id, next_snapshot)

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer, so that snapshots it has not read can expire. Raises NotFoundError for an unknown one."""
        self._files.delete_consumer(consumer_id)

    def abandon_writer(self, user: str) -> Snapshot:
        """Let streams with `stream.align=snapshot` wait no more for a writer that never comes back; gives a snapshot.

        `user` is the commit user that their error names, whose batch the newest snapshot holds in part. Nothing is
        dropped: the part stays, and should the writer come back, it completes the batch in a later snapshot. Raises
        NotFoundError when no batch of the user is unfinished, InvalidRequestError for a table without a log.
        """
        from lakelog.protocol.unfinished import abandon_writer

        if self.log is None:
            raise InvalidRequestError(f"table {self.name} has no log: its snapshots hold no batch in part")
        return abandon_writer(self._files, self.log.topic_id, user)

    def find_commit(self, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
        """The outcome of a commit that ended with UnknownOutcomeError, which names its uuid and its snapshot."""
        return self._files.find_commit(commit_uuid, snapshot_id=snapshot_id)

    def doctor(self, *, role: str = "writer", read_only: bool = False) -> HealthReport:
        """Check the table and, with a log, its Kafka: broker, rights, transactions, clock, topic, retention, log.

        The report has findings, each with what to do; `is_sound` is False when one is a problem. `role` is whose rights
        are needed: reader, writer or admin. Unless `read_only`, a topic `lakelog-doctor-*` is created and deleted, by
        which the broker's clock is seen.
        """
        from lakelog.protocol.health import HealthReport

        return HealthReport(findings=tuple(self._examine(role, may_write=not read_only)))

    def _examine(self, role: str, *, may_write: bool) -> Iterator[Finding]:
        from lakelog.catalog.log_verbs import examine_table

        return examine_table(self._files, self.log, role, may_write=may_write)

    def tail_log(
        self,
        *,
        start: Timestamp | Mapping[int, int] = "now",
        key: Mapping[str, object] | None = None,
        follow: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The changes in the log as they are committed, without end; without `follow` those that are committed now.

        They have the columns `_row_kind`, `_bucket`, `_offset`, `_timestamp`, `_user` and `_batch_id` (of the writer's
        batch), then the table's. `start` is `now`, `earliest`, `snapshot` (behind the newest one), a timestamp, or
        bucket -> offset for these buckets alone. `key` has a value for each primary key column; only its changes are
        given. Raises InvalidRequestError for a table without a log, LogTruncatedError for deleted offsets,
        UnavailableError.
        """
        from lakelog.catalog.log_verbs import changes_of, open_tail

        return changes_of(open_tail(self._files, self.log, start=start, key=key, follow=follow))

    def verify_log(self, *, from_snapshot: int | None = None, to_snapshot: int | None = None) -> LogVerification:
        """Compare log and files: the rows of one snapshot and the changes up to another one must be the other's rows.

        By default from the oldest snapshot of the log that the table has now to the newest; 0 is the state before the
        first one. The result has the number of differing rows and the first of them. Memory is bounded by
        `read.memory-budget`; larger tables go through files in the temporary folder. Raises LogTruncatedError when
        records of the range were deleted, NotFoundError for a snapshot that does not exist, InvalidRequestError for one
        before the log, UnavailableError.
        """
        from lakelog.catalog.log_verbs import verify

        return verify(self._files, self.log, from_snapshot=from_snapshot, to_snapshot=to_snapshot)

    def open_transactions(self) -> list[LogTransaction]:
        """The oldest open transaction of each bucket, which hides the records behind it from readers.

        A running batch has one for moments. Each has the command of Apache Kafka that ends it.
        """
        from lakelog.catalog.log_verbs import transactions

        return transactions(self._files, self.log)

    def end_transactions(self, *, older_than: Age = timedelta(minutes=15)) -> EndedTransactions:
        """Abort the open transactions that are older; gives those that were aborted, and those that are left.

        Those of lakelog's writers are ended safely: a writer that is alive starts its batch again. Those of other
        programs are ended on the embedded broker alone, and their records are lost if the program is alive.
        """
        from lakelog.catalog.log_verbs import end

        return end(self._files, self.log, older_than=older_than)

    def alter(self, *changes: SchemaChange) -> Table:
        """Change columns, options or comments, all or none; gives the table with the new schema.

        `changes` are values such as `AddColumn` and `SetOption` of `lakelog.catalog`. No row is rewritten. This handle
        and running streams keep the schema that they started with. In a table with a log columns can be added, moved
        and dropped, and comments and options be set; other changes would make the records in its log unreadable. Raises
        InvalidRequestError and UnsupportedError.
        """
        from lakelog.catalog.altering import alter_table

        schema = alter_table(self._files, self.warehouse, changes, kafka=self.kafka)
        return self._of(replace(self._files, schema=schema))

    def _with_new_columns(self, found: pa.Schema, **how: Unpack[Found]) -> Table:
        """The table with the new columns of `found`, see `add_new_columns`."""
        from lakelog.catalog.added_columns import add_new_columns

        schema = add_new_columns(self._files, self.warehouse, found, kafka=self.kafka, **how)
        return self._of(replace(self._files, schema=schema))

    def add_log(self, options: Mapping[str, str] | None = None) -> Table:
        """Give the table a log, which begins at its newest snapshot; gives the changed table.

        `options` are those of the log: `log.*` and `change-tracking`. Its topic has a partition a bucket. Writers and
        streams that opened the table before end with an error; when they are started again they continue, streams that
        read it in the log once they have followed the snapshots before. A call that was cut off is made again.
        Raises InvalidRequestError for a table that has a log, for options that do not fit, and for one without a fixed
        number of buckets, UnsupportedError for one that does not keep the last row of a key, and UnavailableError when
        Kafka does not answer; then nothing was changed. Source: FLIP-188, "Session Options".
        """
        from lakelog.catalog.log_life import add_log, identifier_for_topics

        name = identifier_for_topics(self.identifier, self.path, self._files.branch)
        return self._of(
            add_log(self._files, name, options or {}, kafka=self.kafka, bootstrap_servers=self._bootstrap_servers)
        )

    def remove_log(self, *, keep_topic: bool = False) -> Table:
        """End the log of the table, and delete its topic unless `keep_topic`; gives the changed table.

        What is logged and in no snapshot yet is taken into one first. Writers and streams that opened the table before
        end with an error; when they are started again they continue with the files. A stream that had not read the log
        up to its end needs the topic, or reads on from the snapshot that it had reached. A call that was cut off is
        made again. Raises InvalidRequestError for a table without a log, and while a batch is logged in a part of the
        buckets alone, which only its stream can finish; ConflictError while a stream writes the table; NotFoundError
        without the topic, see `renew_log`; UnavailableError.
        """
        from lakelog.catalog.log_life import remove_log

        return self._of(remove_log(self._files, keep_topic=keep_topic, kafka=self.kafka))

    def renew_log(self, *, keep_topic: bool = False) -> Table:
        """Give the table a new topic, which begins at its newest snapshot; gives the changed table.

        For a topic that was lost, or that is to be made with other settings. The older topic is ended and deleted as by
        `remove_log`. Where it does not exist, batches that were logged and in no snapshot are lost with it, and their
        streams write them again. Raises InvalidRequestError for a table without a log, ConflictError while a stream
        writes the table, UnavailableError.
        """
        from lakelog.catalog.log_life import identifier_for_topics, renew_log

        name = identifier_for_topics(self.identifier, self.path, self._files.branch)
        return self._of(renew_log(self._files, name, keep_topic=keep_topic, kafka=self.kafka))

    def drop_ended_logs(self, *, older_than: Age | None = None) -> list[str]:
        """Delete the topics that the table had before, and that are still in Kafka; gives their names.

        A rescale leaves the older topic for streams that have not read it to its end, and so do `renew_log` and
        `remove_log` when they are asked to. Those that ended before `older_than` are deleted, by default before
        `log.retention`: a timedelta, a duration such as `2 h`, or a datetime. What a stream that runs, or ended less
        than a day ago, has still to read stays. Streams that come back later go on in the files, where they had read
        up to a living snapshot. Raises InvalidRequestError while a log is half ended, UnavailableError.
        """
        from lakelog.catalog.log_life import drop_ended_logs

        return drop_ended_logs(self._files, older_than, kafka=self.kafka)

    def branch(self, name: str) -> Table:
        """A branch as a table of its own, which is read and written like any table. Raises NotFoundError.

        What is written there does not show in the table. It has columns, options, snapshots, tags and consumers of its
        own, and shares data files with the table. `main` is the table itself.
        """
        return self._of(self._files.on_branch(name))

    def create_branch(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained: Age | None = None,
        if_not_exists: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Make a branch of the newest snapshot, of the one that `snapshot_id`, `tag` or `timestamp` names, or `empty`.

        Only metadata are copied, so it takes no longer for a large table. A tag `lakelog-fork-*` in the table and in
        the branch keeps the files that they share, until the branch is deleted. A branch begins without a log;
        `branch(name).add_log()` gives it one of its own. After `time_retained` `expire_branches` deletes it. Raises
        InvalidRequestError for a name that cannot be: `main`, a number, one with a dot, a dollar sign or a slash;
        ConflictError for a name that is taken.
        """
        from lakelog.catalog.branching import create_branch

        return create_branch(
            self._files, name, empty=empty, time_retained=time_retained, if_not_exists=if_not_exists, **which
        )

    def merge_changes(
        self,
        branch: str,
        *,
        base: str | int | None = None,
        on_conflict: str | Mapping[str, str] = "fail",
        dry_run: bool = False,
    ) -> BranchMerge:
        """Merge what changed in a branch since it began, or since the last merge, into the table, in one snapshot.

        Both sides are compared with the state that they come from, by primary key. A row that only the branch has
        changed, inserted or deleted becomes the branch's; one that both have changed in the same way stays. What both
        have changed differently is a conflict: by `on_conflict` an error (`fail`), the branch's row (`branch`) or the
        table's (`main`). With {column: rule} rows are merged column by column: a column that one side alone has changed
        has its value, and for the others the rules are `fail`, `branch`, `main`, `sum` (both changes of a number are
        added up), `max` and `min`; `*` is for all columns that are not named, and for a delete against an update.
        Without primary key rows are counted: what the branch inserted is inserted, what it deleted is deleted, and a
        conflict is a row of which both deleted a different number.

        `base` is the snapshot or tag that both come from; only branches that other engines made need it, 0 for one
        made empty. With `dry_run` nothing is written: the result says what would be done, with all conflicts. Only
        files in which the sides differ are read; a compaction makes them differ. The changes must fit in memory. On a
        table with a log the merge is a batch statement. Raises BranchConflictError for conflicts that no rule decides,
        then nothing is written; InvalidRequestError for columns that differ and for a branch without a known base;
        UnsupportedError for tables without a log whose merge engine combines rows; NotFoundError, ConflictError.
        """
        from lakelog.catalog.branch_merging import merge_changes

        return merge_changes(self, branch, base=base, on_conflict=on_conflict, dry_run=dry_run)

    def rename_branch(self, name: str, new_name: str) -> None:
        """Give a branch another name. Raises NotFoundError, ConflictError for a taken name and a running writer."""
        self._files.rename_branch(name, new_name)

    def delete_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch with its snapshots and tags. `remove_orphan_files` deletes the files that it alone named.

        Raises NotFoundError, and InvalidRequestError for a branch that `scan.fallback-branch` names.
        """
        from lakelog.catalog.branching import delete_branch

        delete_branch(self, name, if_exists=if_exists)

    def branches(self) -> list[Branch]:
        """The branches of the table by name, also those of other engines; without the main one."""
        return self._files.branches()

    def expire_branches(self, *, older_than: Age | None = None) -> list[str]:
        """Delete the branches whose `time_retained` is over; gives their names.

        With `older_than` also those that were neither made nor written since: a timedelta, a duration such as `30 d`,
        or a datetime. A branch that an option of the table names stays.
        """
        from lakelog.catalog.branching import expire_branches

        return expire_branches(self, older_than)

    def fast_forward(self, branch: str) -> Snapshot:
        """Give the table the snapshots, tags and columns that a branch has since it began; gives the newest snapshot.

        The branch stays, and goes on from there. Raises ConflictError where the table has changed since, which would be
        lost, and while a writer commits; InvalidRequestError for tables with a log, see `merge_changes`.
        """
        return self._files.fast_forward(branch)

    def merge_branch(self, branch: str) -> Snapshot:
        """As `fast_forward`, and the snapshots, tags and columns that the table has since the fork give way.

        `merge_changes` keeps the changes of both. A stream that wrote the table goes on with its next batch; batches
        that gave way do not come again. Writers of other engines must be stopped before.
        """
        return self._files.merge_branch(branch)

    def replace_main(self, branch: str) -> Snapshot:
        """As `merge_branch`, and the branch is deleted: its metadata are the table's."""
        return self._files.replace_main(branch)

    @property
    def main_branch(self) -> str:
        """The branch that a file `main-branch` in the table's folder names, `main` without one.

        A proposal for Paimon names this file. No released engine writes or follows it, and neither does lakelog: reads
        and writes without a branch are of the table's folder.
        """
        from lakelog.filestore.refs.branching import main_branch

        return main_branch(self._files)

    def new_identity(self) -> Table:
        """Give the table a new uuid and, where it has a log, a new topic; gives the changed table.

        For a copied folder, which would otherwise share the log of its original, and for a table that has lost
        lakelog's state of its writers. The rows stay as they are; records of the old log that are in no snapshot are
        left out, and streams that read the table need new checkpoint locations. Raises UnavailableError when Kafka does
        not answer; then nothing was changed.
        """
        from lakelog.catalog.log_life import identifier_for_topics
        from lakelog.protocol.new_identity import new_identity

        name = identifier_for_topics(self.identifier, self.path, self._files.branch)
        return self._of(new_identity(self._files, topic_of=name.topic, kafka=self.kafka))

    def _of(self, files: FileStoreTable) -> Table:
        """This table with these files."""
        servers = self._bootstrap_servers
        return Table(files, identifier=self.identifier, kafka=self.kafka, bootstrap_servers=servers)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, path={self.path!r})"

    def _repr_html_(self) -> str:
        """Name, folder and columns, as notebooks show them; no I/O."""
        return self.schema.columns_html(f"table {self.name} in {self.path}")
