"""Batch statements over the real stores: planned on a snapshot, staged, prepared and finished by this process.

Every other writer of the table finishes, by the same ports, what a statement has left.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.errors import ConflictError, LakelogError, NotFoundError, UnknownOutcomeError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore, discard_files
from lakelog.filestore.write import ChangePlan, StatementChanges
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.record_limit import record_limit
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.header import CommitHeader, StagedPart
from lakelog.protocol.state.prepared import USER_PREFIX, PreparedCommit, PreparedCommits, prepared_names
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver, process_observer
from lakelog.protocol.statements.settling import is_settled, settle
from lakelog.protocol.statements.staging import stage_statement, with_base
from lakelog.protocol.statements.statement_files import StatementTaskFiles
from lakelog.protocol.statements.statement_task import (
    CancelledError,
    StatementTask,
    headers_behind,
    log_statements,
    look,
    readable_headers,
)
from lakelog.protocol.statements.statements import Fate, StatementPorts, cancel, finish, finish_left_over, put_prepared
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.stores.task_stores import TaskLog
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.logged_batches import buckets_behind
from lakelog.protocol.writing.turns import in_turn

logger = logging.getLogger("lakelog.protocol")

_THREADS_MAX = 16  # buckets that are logged at a time: each holds its records
_BYTES_PER_STORED_BYTE = 8  # at most: bytes of rows in memory per byte of a compressed file

Answer = TypeVar("Answer")


def target_of(log: TableLog) -> LogTarget:
    """Where a log is. Starts the embedded broker if it has the log and is down."""
    return LogTarget(
        topic=kafka_topic(log), topic_id=log.topic_id, mode=log.mode, unavailable_seconds=log.unavailable_seconds
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTable:
    """A table with a log, for batch statements. `kafka` has the user's own settings, for the expiry of the log."""

    table: TableStore
    target: LogTarget
    kafka: Mapping[str, str]
    observe: StepObserver

    @classmethod
    def of(
        cls,
        table: TableStore,
        target: LogTarget,
        *,
        kafka: Mapping[str, str] | None = None,
        observe: StepObserver | None = None,
    ) -> LoggedTable:
        """The table with its newest schema: a finisher must know every column that a statement has written."""
        newest = table.schemas.latest()
        if newest is not None and newest.id != table.schema.id:
            table = replace(table, schema=newest)
        return cls(table=table, target=target, kafka=dict(kafka or {}), observe=observe or process_observer())

    @property
    def snapshots(self) -> DriverSnapshots:
        """The table's snapshots."""
        return DriverSnapshots(self.table, self.target.topic_id, self.kafka)

    @property
    def prepared(self) -> PreparedCommits:
        """The table's prepared commits."""
        return PreparedCommits(self.table)

    @property
    def ports(self) -> StatementPorts:
        """The ports for finishing and cancelling."""
        return StatementPorts(
            snapshots=self.snapshots,
            prepared=self.prepared,
            log_in=self._log_in,
            look=self._look,
            observe=self.observe,
            clock=system_millis,
            bucket_count=self.table.bucket_count,
            behind=self.behind,
        )

    def begin(self) -> None:
        """What goes before a statement: others are finished, and batches that wait for their snapshot are taken in.

        Their writers have acknowledged them, so the statement must see them.
        """
        self._begin(self.table.file_io.list_names(self.prepared.folder))

    def _begin(self, names: Sequence[str]) -> None:
        if prepared_names(names):
            self.finish_left_over()
        if not is_settled(self.table, self.target):
            settle(self.table, self.target, self._finish_all)

    def settle(self, *, wait_seconds: float = 0.0) -> Snapshot | None:
        """Take what the log has into a snapshot; returns the newest one. See `settle`."""
        with in_turn(self.table):
            return settle(self.table, self.target, self._finish_all, wait_seconds=wait_seconds)

    def finish_left_over(self) -> dict[str, Fate]:
        """Finish or cancel what other processes have left. One listing if there is nothing."""
        is_foreign = partial(self.prepared.is_foreign, topic_id=self.target.topic_id)
        return finish_left_over(self.ports, is_foreign=is_foreign)

    def _finish_all(self) -> None:
        """Finish statements that others have left, and take in the writes that the log has."""
        self.finish_left_over()
        writes = {header.statement for header in self.behind()[1] if header.parts}
        if writes:
            self.finish(str(name) for name in writes)

    def behind(self) -> tuple[Sequence[int], Sequence[CommitHeader]]:
        """The buckets whose log is longer than the newest snapshot says, and the headers that can be read there now."""
        buckets = buckets_behind(self.table, self.target, self.snapshots.newest())

        def headers(bucket: int) -> tuple[CommitHeader, ...]:
            task = self._task({}, bucket, None)
            return task.patience.keep_trying(partial(readable_headers, task))

        return buckets, list(chain(*self._in_threads(buckets, headers)))

    def finish(self, names: Iterable[str]) -> None:
        """Finish statements that a task has met."""
        finish(names, self.ports)

    def resume(self, name: str) -> None:
        """Finish a statement in place of its own driver, whether it has begun or not. Raises CancelledError."""
        finish([name], self.ports, own=name)

    def cancel(self, name: str) -> Fate:
        """Cancel a statement that has not begun; a statement that has begun is finished."""
        return cancel(name, self.ports)

    def unfinished(self) -> list[tuple[str, PreparedCommit, bool]]:
        """The prepared statements that are in no snapshot: name, prepared commit, and whether it is in the log."""
        found = []
        for name in self.prepared.names():
            try:
                prepared = self.prepared.read(name)
            except NotFoundError:  # finished or cancelled meanwhile
                continue
            is_foreign = self.prepared.is_foreign(prepared, topic_id=self.target.topic_id)
            is_open = prepared.user not in self.snapshots.newest().users and self.prepared.exists(name)
            if is_open and not is_foreign:
                tails = self._look(sorted(prepared.parts), False).values()
                found.append((name, prepared, any(name in tail for tail in tails)))
        return found

    def headers_behind(self) -> list[CommitHeader]:
        """The headers in the log that no snapshot has. Raises StalledError while a transaction is open."""
        tails = self._in_threads(
            range(self.table.bucket_count), lambda bucket: headers_behind(self._task({}, bucket, None))
        )
        return list(chain(*tails))

    def run(
        self,
        operation: str,
        plan: ChangePlan,
        *,
        commits_nothing: bool = False,
        properties: Mapping[str, str] | None = None,
        change_tracking: bool | None = None,
    ) -> Snapshot | None:
        """Run a statement; returns the snapshot that has it, None if it changes nothing.

        With `commits_nothing`, a statement that changes nothing makes a snapshot too. `properties` are further
        properties of the snapshot. `change_tracking` is that of `stage_statement`. Raises CancelledError and
        OldFilesError when nothing of the statement is in the table, UnknownOutcomeError when it may still get there,
        and what `plan` and the checks of its rows raise.
        """
        check_no_copy(self.table, self.snapshots.newest().place)
        with in_turn(self.table) as names:
            self._begin(names)
            return self._run(operation, plan, commits_nothing, properties or {}, change_tracking)

    def _run(
        self,
        operation: str,
        plan: ChangePlan,
        commits_nothing: bool,
        properties: Mapping[str, str],
        change_tracking: bool | None,
    ) -> Snapshot | None:
        latest = self.table.snapshots.latest()
        rows = plan(latest)
        if not (rows.row_count or commits_nothing):
            return None
        self.check_records(rows)
        state = read_state(self.table, latest, topic_id=self.target.topic_id)
        age = Stopwatch()
        parts = stage_statement(self.table, rows, state, change_tracking=change_tracking)
        named = with_base(self.table, state, rows.clears, properties)
        return self.run_staged(
            operation,
            state,
            parts,
            row_count=rows.row_count,
            age_seconds=age.seconds,
            lineage=rows.lineage,
            properties=named,
        )

    def run_staged(
        self,
        operation: str,
        state: TableState,
        parts: Mapping[int, StagedPart],
        *,
        row_count: int,
        age_seconds: Callable[[], float],
        lineage: Mapping[str, object] | None = None,
        properties: Mapping[str, str] | None = None,
        check: Callable[[str], None] | None = None,
    ) -> Snapshot:
        """Prepare and finish a statement whose files are staged. Raises like `run`.

        `properties` are further properties of its snapshot. `check` is called with the name of the prepared commit
        before anything is logged; if it raises, the statement is cancelled.
        """
        prepared = PreparedCommit(
            table_uuid=self.table.uuid,
            topic_id=self.target.topic_id,
            user=f"{USER_PREFIX}{uuid.uuid4()}",
            operation=operation,
            schema_id=self.table.schema.id,
            base_snapshot_id=state.snapshot_id,
            time_millis=system_millis(),
            row_count=row_count,
            parts=parts,
            lineage={"operation": operation, **(self.table.lineage or {}), **(lineage or {})},
            properties=properties or {},
        )
        name = self._prepare(prepared, age_seconds)
        self.observe(Step.AFTER_PREPARED_COMMIT, prepared.user, prepared.batch.identifier, None)
        if check is not None:
            try:
                check(name)
            except LakelogError:
                self.cancel(name)
                raise
        try:
            finish([name], self.ports, own=name, base=state.snapshot_id)
        except CancelledError:
            raise
        except LakelogError as error:
            raise UnknownOutcomeError(
                f"the {operation} of table {self.table.name} was interrupted: {error}. Its prepared commit is {name}: "
                "the next writer finishes it if a bucket of it was logged, and cancels it after an hour if not; "
                f"`lakelog statement finish {self.table.path}` and `lakelog statement cancel {self.table.path}` decide "
                "it now"
            ) from error
        return self._snapshot_of(prepared.user, after=state.snapshot_id)

    def _prepare(self, prepared: PreparedCommit, age_seconds: Callable[[], float]) -> str:
        self.observe(Step.PREPARED_COMMIT, prepared.user, prepared.batch.identifier, None)
        try:
            return put_prepared(lambda: self.prepared.write(prepared), self.prepared, age_seconds=age_seconds)
        except ValueError as error:
            self._discard(prepared)
            raise ConflictError(
                f"a statement of {len(prepared.file_names)} files is too large to be prepared: {error}; write less at "
                "a time"
            ) from error

    def _discard(self, prepared: PreparedCommit) -> None:
        discard_files(
            self.table,
            [
                self.table.data_path(file.bucket_id(bucket), file.meta)
                for bucket, part in prepared.parts.items()
                for file in (*part.files, *part.removed)
            ],
        )

    def _snapshot_of(self, user: str, *, after: int) -> Snapshot:
        """The first living snapshot that has a finished statement, which none up to `after` has."""
        found = self.snapshots.first_with(user, after=after) or self.table.snapshots.latest()
        assert found is not None, "a finished statement made a snapshot"
        return found

    def check_records(self, rows: StatementChanges) -> None:
        """Raise InvalidRequestError for a row whose record the topic would refuse, before anything is prepared."""
        limit = Patience(self.target.unavailable_seconds).keep_trying(lambda: record_limit(self.target.topic))
        schema = self.table.schema
        for part, kinds in ((rows.rows, rows.kinds), (rows.removed, None)):
            limit.check_changes(part, kinds, schema.fields, schema.primary_keys, self.target.mode)

    def _log_in(
        self, statements: Mapping[str, PreparedCommit], buckets: Iterable[int], own: str | None
    ) -> Sequence[BucketAnswer]:
        return self._in_threads(buckets, lambda bucket: log_statements(self._task(statements, bucket, own)))

    def _look(self, buckets: Iterable[int], fences: bool) -> Mapping[int, Sequence[str]]:
        asked = list(buckets)
        found = self._in_threads(asked, lambda bucket: look(self._task({}, bucket, None), fences=fences))
        return dict(zip(asked, found, strict=True))

    def _in_threads(self, buckets: Iterable[int], work: Callable[[int], Answer]) -> list[Answer]:
        """The result of `work` for each bucket. Raises the first error after all have ended."""
        asked = list(buckets)
        if not asked:
            return []
        self.prepared.check_buckets(asked)
        with ThreadPoolExecutor(min(len(asked), _THREADS_MAX), thread_name_prefix="lakelog-statement") as pool:
            return list(pool.map(work, asked))

    def _task(
        self, statements: Mapping[str, PreparedCommit], bucket: int, own: str | None
    ) -> StatementTask[EncodedRecords]:
        files = [file.meta for one in statements.values() for part in one.parts.values() for file in part.files]
        size_bytes = _BYTES_PER_STORED_BYTE * sum(meta.file_size_bytes for meta in files)
        return StatementTask(
            table_uuid=self.table.uuid,
            schema_id=self.table.schema.id,
            bucket=bucket,
            statements=statements,
            own=own,
            log=TaskLog(self.table, self.target, size_bytes),
            files=StatementTaskFiles(self.table, self.target),
            prepared=self.prepared,
            observe=self.observe,
            patience=Patience(self.target.unavailable_seconds),
        )
