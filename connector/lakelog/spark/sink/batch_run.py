"""The state that a sink keeps between batches, and one micro-batch on its way through the stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lakelog.catalog import Table
from lakelog.common.clock import Stopwatch
from lakelog.common.column_names import spelled
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.origins import BatchLineage
from lakelog.filestore.metadata.snapshots import CommitListener
from lakelog.filestore.write import unknown_columns
from lakelog.lineage.records.best_effort import failure_count
from lakelog.logstore.options import SNAPSHOT_INTERVAL
from lakelog.protocol.state import TableState
from lakelog.protocol.statements import OtherWriters
from lakelog.protocol.stores import LogTarget
from lakelog.protocol.upkeep import publish_progress
from lakelog.protocol.writing import IntervalSnapshots, Turns, WriterLease, reporting
from lakelog.spark.capture.batch_fields import BatchFields
from lakelog.spark.capture.capture import Capture
from lakelog.spark.capture.checkpoint_table import bind, check_unowned, check_unseen
from lakelog.spark.projection import Projector, check_is_projected, check_schema, with_new_columns
from lakelog.spark.session import CASE_CONF, core_count
from lakelog.spark.sink.alignment import MicroBatch
from lakelog.spark.sink.batch_write import NOTHING_WRITTEN, BatchWrite, Written
from lakelog.spark.sink.commits import BatchOutcome
from lakelog.spark.sink.leases import KeptLease
from lakelog.spark.sink.listeners import tell_of


@dataclass(slots=True, kw_only=True)
class SinkState:
    """What a sink was given, and what it keeps between batches. Runs are those of the query."""

    table: Table
    order_by: Sequence[str]
    writer_name: str | None
    commit_user: str | None
    task_count: int | None
    merge_schema: bool
    change_tracking: bool | None
    capture: Capture
    job_takeover: bool
    listeners: Sequence[CommitListener]
    snapshot_interval_millis: int | None = None  # None: as the table's option says
    by_interval: IntervalSnapshots | None = None  # what is in the log alone
    fields: BatchFields = field(default_factory=BatchFields)
    projector: Projector = field(default_factory=Projector)
    lease: KeptLease = field(default_factory=KeptLease)
    owns_checkpoint: bool = False  # the query writes only this table
    is_settled_later: bool = False  # at its end the stream merges what was written
    holds_lineage: bool = False  # snapshots are kept until their lineage is fed
    visited_run: str | None = None  # the run in which all buckets were visited
    bound_run: str | None = None  # the run whose checkpoint was checked
    is_looked_up: bool = False  # on Spark Connect, which shows no run


@dataclass(slots=True)
class BatchRun:
    """One micro-batch on its way through the stages, each of which sets what the next ones need."""

    sink: SinkState
    rows: DataFrame
    batch_id: int
    lasted: Stopwatch = field(default_factory=Stopwatch)
    failures_before: int = field(default_factory=failure_count)  # of analyses of lineage, in this thread
    micro: MicroBatch = field(init=False)
    lease: WriterLease | None = None
    lineage: BatchLineage | None = None
    target: LogTarget | None = None
    write: BatchWrite = field(init=False)
    state: TableState = field(init=False)
    others: OtherWriters = field(default_factory=OtherWriters)
    turns: Turns | None = None  # beside writers that wait for one
    outcome: BatchOutcome | None = None
    written: Written = NOTHING_WRITTEN

    @property
    def table(self) -> Table:
        """The table, as the last change of columns left it."""
        return self.sink.table

    @property
    def is_first(self) -> bool:
        """Whether the batch is the first of its run."""
        return self.micro.run is None or self.sink.visited_run != self.micro.run


def turn_of(run: BatchRun) -> AbstractContextManager[None]:
    """The turn of a batch beside the snapshots by interval. A run of the query begins without what another had."""
    sink, store = run.sink, run.table.store
    millis = sink.snapshot_interval_millis
    if millis is None and store.has_log:
        millis = SNAPSHOT_INTERVAL.of(store.schema.options)
    if run.is_first:
        if sink.by_interval is not None:
            sink.by_interval.abandon()
        sink.by_interval = None
        if millis:
            options, has_listeners = store.schema.options, bool(sink.listeners)
            sink.by_interval = IntervalSnapshots.of(options, millis=millis, has_listeners=has_listeners)
    return nullcontext() if sink.by_interval is None else sink.by_interval.batch()


def tasks_of(run: BatchRun) -> int:
    """How many tasks write buckets of their own: no more than there are buckets, where their number is fixed."""
    wanted = run.sink.task_count or core_count(run.rows)
    schema = run.table.schema
    return wanted if schema.has_dynamic_buckets else max(1, min(schema.bucket_count, wanted))


def take_in_later(run: BatchRun, by_interval: IntervalSnapshots) -> None:
    """Make the snapshot of batches that are in the log alone, without a batch, and tell of it."""
    assert run.target is not None, "only a table with a log has such batches"
    written = run.write.take_pending(by_interval, run.target, run.rows.sparkSession, is_last=True)
    if run.table.log is not None:
        publish_progress(run.table.store, run.table.log)
    report_taken(run, written)


def report_taken(run: BatchRun, written: Written) -> None:
    """Tell listeners of all batches that a snapshot has taken in, and of those that they have not heard of before."""
    listeners, user = run.sink.listeners, run.micro.user
    batches = written.batches or (run.micro.identifier,)
    may_have_earlier = bool(written.batches) or run.outcome is BatchOutcome.REPLAYED
    if not listeners or run.target is None or not may_have_earlier:
        tell_of(listeners, run.table, user, batches)
        return
    with reporting(run.table.store, run.target, user, batches) as found:
        tell_of(listeners, run.table, user, found)


def check_rows(sink: SinkState, rows: DataFrame) -> None:
    """Raise InvalidRequestError unless rows with these columns can be written, see `LakelogSink.check_rows`."""
    is_case_sensitive = rows.sparkSession.conf.get(CASE_CONF) == "true"
    sink.order_by = spelled(sink.order_by, rows.columns, what="order_by", is_case_sensitive=is_case_sensitive)
    looked_at = unknown_columns(sink.table.schema, sink.order_by, is_case_sensitive=is_case_sensitive)
    written = StructType([field for field in rows.schema.fields if field.name not in looked_at])
    if sink.merge_schema:
        sink.table = with_new_columns(sink.table, written, is_case_sensitive=is_case_sensitive)
    check_schema(written, sink.table.schema, table_name=sink.table.name, is_case_sensitive=is_case_sensitive)
    check_is_projected(sink.table.schema, table_name=sink.table.name)


def check_checkpoint(sink: SinkState, micro: MicroBatch) -> None:
    """Raise InvalidRequestError unless the table has the previous batches, see `LakelogSink.check_checkpoint`."""
    if micro.checkpoint is None:
        if not sink.is_looked_up:
            check_unseen(sink.table.store, user=micro.user, batch_id=micro.identifier)
        sink.is_looked_up = True
        return
    if micro.run == sink.bound_run:
        return
    check = bind if sink.owns_checkpoint else check_unowned
    check(micro.checkpoint, sink.table.store, user=micro.user, batch_id=micro.identifier)
    sink.bound_run = micro.run


class FinishedBatches:
    """The last batch that this process has finished for each user and table in a run.

    Spark gives a batch to the sink once per run. A second write of the batch comes from a second sink on the same
    table, whose rows would be taken for a replay and dropped.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._last: dict[tuple[str | None, str, str, str], int] = {}

    def check_new(self, table: Table, micro: MicroBatch) -> None:
        """Raise InvalidRequestError when the batch is already finished."""
        with self._lock:
            last = self._last.get((micro.run, table.path, table.store.branch, micro.user), -1)
        if last >= micro.identifier:
            raise InvalidRequestError(
                f"batch {micro.identifier} writes table {table.name} a second time: give each sink on one table in one "
                "query a writer_name of its own, or unite their rows before one write"
            )

    def add(self, table: Table, micro: MicroBatch) -> None:
        """Record a finished batch."""
        with self._lock:
            self._last[(micro.run, table.path, table.store.branch, micro.user)] = micro.identifier


FINISHED = FinishedBatches()


def await_turn(run: BatchRun) -> None:
    """Beside writers that wait for a turn at the log, a batch takes its place among them."""
    if run.target is not None and (run.others.wait or run.turns is not None):
        run.turns = run.turns or Turns(run.table.store)
        run.turns.begin()
        run.state = run.write.snapshots.newest()


@contextmanager
def turns_ended(run: BatchRun) -> Iterator[None]:
    """Others have their turn once the batch has an outcome, or an error."""
    try:
        yield
    finally:
        if run.turns is not None:
            run.turns.end()


def remember(run: BatchRun) -> None:
    """A second sink that writes this batch too is refused from now on."""
    FINISHED.add(run.table, run.micro)
