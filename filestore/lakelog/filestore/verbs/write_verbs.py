"""The writes of a table without a log, each followed by the upkeep that is due."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.options.layout import PARTITION_EXPIRATION_TIME
from lakelog.filestore.verbs.upkeep_verbs import KeptTable

if TYPE_CHECKING:
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.write.changing import ChangePlan
    from lakelog.filestore.write.deleting import TableChange, WrittenChange
    from lakelog.filestore.write.row_input import Rows
    from lakelog.filestore.write.row_kinds import RowKinds
    from lakelog.filestore.write.table_write import Replaced, TableWrite
    from lakelog.filestore.write.write import WrittenRows

WriteMode = Literal["append", "overwrite", "overwrite-partitions"]


class WritableTable(KeptTable):
    """A table with its writes."""

    def write(
        self,
        rows: Rows,
        *,
        mode: WriteMode = "append",
        where: str | Predicate | None = None,
        kinds: RowKinds | None = None,
        clock: CommitClock | None = None,
    ) -> Snapshot:
        """Write rows and commit them in one snapshot; `kinds` are row kinds, one for all rows or one per row.

        `overwrite` replaces all rows of the table, or with `where`, a condition on partition columns, those of the
        partitions that meet it; the new rows must meet it too. `overwrite-partitions` replaces the partitions of the
        new rows. Afterwards the written buckets are compacted and old snapshots expire if that is due, unless the table
        is write-only. Raises InvalidRequestError for rows that do not fit and for tables with a log, ConflictError for
        an overwrite of a table that another writer changed meanwhile.
        """
        from lakelog.filestore.write.table_write import TableWrite

        write = TableWrite(self, rows, kinds, replaces=self.check_write(mode, where), clock=clock)
        if mode == "append":
            snapshot = self._committed(write, clock)
        else:
            from lakelog.filestore.compact.ahead import compacted_ahead

            with compacted_ahead(self, write.entries) as commit_compaction:
                snapshot = self._committed(write, clock, then=commit_compaction)
        assert snapshot is not None
        return snapshot

    def delete(self, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the rows that meet a condition, in one snapshot; None if no row does.

        The rows are read and written again as retractions, and must fit in memory; the files of an append-only table
        that hold such rows are written again without them. If another commit comes first, the rows are read again.
        Afterwards buckets are compacted and snapshots expire as after a write. Raises UnsupportedError for tables whose
        rows a retraction does not delete, such as those of other merge engines than deduplicate; InvalidRequestError
        for tables with a log; ConflictError when other writers commit all the time.
        """
        self._check_has_no_log()
        from lakelog.filestore.predicate import required_predicate
        from lakelog.filestore.write.changing import delete_plan
        from lakelog.filestore.write.deleting import check_deletable

        check_deletable(self.schema, table_name=self.name)
        return self._change("DELETE", delete_plan(self, required_predicate(where)), clock=clock)

    def _change(self, operation: str, plan: ChangePlan, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Commit the changes of a statement of `lakelog.filestore.write.changing`; None if there are no changes.

        The statement is planned again if another commit comes first. Afterwards buckets are compacted and snapshots
        expire as after a write. Raises InvalidRequestError for tables with a log, ConflictError when other writers
        commit all the time.
        """
        self._check_has_no_log()
        from lakelog.filestore.write.deleting import TableChange

        latest_of(self)  # raises for a table that was created again
        snapshot = self._committed(TableChange(self, plan, operation), clock)
        self._compact_waiting(clock)
        return snapshot

    def _change_written(
        self,
        operation: str,
        written: WrittenRows,
        base: Snapshot | None,
        *,
        lineage: Mapping[str, object],
    ) -> Snapshot | None:
        """Commit the changes of a statement that others have worked out and written on the snapshot `base`.

        Afterwards like `_change`. Raises ConflictError if another snapshot is the newest; the files are deleted then.
        """
        self._check_has_no_log()
        from lakelog.filestore.write.deleting import WrittenChange

        snapshot = self._committed(WrittenChange(self, written, base, operation, lineage=lineage), None)
        self._compact_waiting(None)
        return snapshot

    def _committed(
        self,
        write: TableWrite | TableChange | WrittenChange,
        clock: CommitClock | None,
        *,
        then: Callable[[], None] | None = None,
    ) -> Snapshot | None:
        """Commit, call `then`, compact and expire what is due. None if there is nothing to commit."""
        from lakelog.filestore.commit.commit import TableCommit

        snapshot = TableCommit(self, clock=clock).commit(
            write.resolve, look=write.look, discard=lambda: write.discard([*write.superseded, *write.paths])
        )
        if then is not None:
            then()
        write.discard(write.superseded)
        if snapshot is None:
            return None
        self._compact_after_write({entry.bucket_id for entry in write.entries}, clock, after=snapshot)
        self._expire_after(snapshot)
        return snapshot

    def check_write(self, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
        """The partitions that a write replaces; None for a write that adds rows.

        Raises InvalidRequestError for a mode and a condition that do not fit, and for tables with a log.
        """
        self._check_has_no_log()
        return self._replaced(mode, where)

    def _replaced(self, mode: WriteMode, where: str | Predicate | None) -> Replaced | None:
        """As `check_write`, also for tables with a log."""
        if mode not in get_args(WriteMode):
            raise InvalidRequestError(f"write mode {shown(mode)} is not known; use {', '.join(get_args(WriteMode))}")
        if where is not None and mode != "overwrite":
            raise InvalidRequestError(f"a write with mode {mode!r} takes no condition; use mode='overwrite'")
        if mode == "append":
            return None
        from lakelog.filestore.write.table_write import Overwrite

        if where is None:
            return Overwrite.EVERYTHING if mode == "overwrite" else Overwrite.WRITTEN_PARTITIONS
        return self._partitions_where(where)

    def drop_partitions(self, where: str | Predicate, *, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete the partitions that meet a condition on partition columns; None if no partition does.

        Raises InvalidRequestError for a condition on other columns and for tables with a log, ConflictError for a table
        that changed meanwhile.
        """
        return self._drop(self._partitions_where(where).matching, clock)

    def expire_partitions(self, *, now_millis: int | None = None, clock: CommitClock | None = None) -> Snapshot | None:
        """Delete partitions by their age. See `lakelog.catalog.Table.upkeep.expire_partitions`."""
        self._check_has_no_log()
        return self._drop(self._expired_partitions(now_millis=now_millis), clock)

    def _expired_partitions(self, *, now_millis: int | None = None) -> Callable[[set[bytes]], set[bytes]]:
        """The function that picks the partitions that are older than `partition.expiration-time`.

        Raises InvalidRequestError without partitions and without the option.
        """
        age = PARTITION_EXPIRATION_TIME.of(self.schema.options)
        if not self.schema.partition_keys:
            raise InvalidRequestError(f"table {self.name} has no partition columns, so no partition can expire")
        if age is None:
            raise InvalidRequestError(
                f"table {self.name} has no option {PARTITION_EXPIRATION_TIME.key}; set it, such as to '30 d'"
            )
        from lakelog.filestore.expire.partition_times import expired_partitions

        now = system_millis() if now_millis is None else now_millis
        return lambda partitions: expired_partitions(self.schema, list(partitions), age_millis=age, now_millis=now)

    def _drop(self, choose: Callable[[set[bytes]], set[bytes]], clock: CommitClock | None) -> Snapshot | None:
        from lakelog.filestore.commit.commit import TableCommit
        from lakelog.filestore.commit.requests import CommitRequest
        from lakelog.filestore.index.hash_index import HashIndexChange
        from lakelog.filestore.metadata.manifests.manifest import FileKind
        from lakelog.filestore.write.table_write import partitions_of
        from lakelog.filestore.write.write import check_table_writable

        self._check_has_no_log()
        check_table_writable(self)
        base = latest_of(self)
        live = self.live_files.of(base)
        dropped = choose(partitions_of(self, base))
        entries = [replace(entry, kind=FileKind.DELETE) for entry in live.entries() if entry.partition in dropped]
        if not entries:
            return None
        request = CommitRequest(
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.OVERWRITE,
            entries=entries,
            hashes=HashIndexChange(replaced=dropped),
            operation="OVERWRITE",
        )

        def resolve(latest: Snapshot | None) -> CommitRequest:
            if latest != base:
                raise ConflictError(f"{self.name} changed while partitions were dropped; drop them again")
            return request

        snapshot = TableCommit(self, clock=clock).commit(resolve)
        assert snapshot is not None
        self._expire_after(snapshot)
        return snapshot
