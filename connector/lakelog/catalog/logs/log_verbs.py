"""The verbs for the log of a table: each checks that there is a log, and that Kafka's client is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakelog.catalog.names.durations import Age, Duration, age_millis, duration_millis
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError
from lakelog.protocol.access import require_kafka_client

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.common.timestamps import Timestamp
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.protocol.access import TableLog
    from lakelog.protocol.reading import LogTail
    from lakelog.protocol.upkeep import EndedTransactions, Finding, LogTransaction, LogVerification, Status
    from lakelog.warehouse.handle import TableHandle

_NAMED_MAX = 5


def required_log(files: FileStoreTable, log: TableLog | None) -> TableLog:
    """The log of a table. Raises InvalidRequestError for a table without one."""
    if log is None:
        raise InvalidRequestError(
            f"table {files.name} has no log; Table.changes and `lakelog table cat --changes` show its changes"
        )
    require_kafka_client()
    return log


def open_tail(
    files: FileStoreTable,
    log: TableLog | None,
    *,
    start: Timestamp | Mapping[int, int],
    key: Mapping[str, object] | None,
    follow: bool,
) -> LogTail:
    """A continuous read of the log. See `Table.log_store.tail`."""
    there = required_log(files, log)
    from lakelog.protocol.reading import tail_of

    return tail_of(files, there, start=start, key=key, follow_on=follow)


def changes_of(tail: LogTail) -> Iterator[pa.RecordBatch]:
    """The changes of a tail, without the pauses."""
    return (batch for batch in tail.batches() if batch is not None)


def settled(table: TableHandle, wait: Duration | None) -> Snapshot | None:
    """Take what the log has into a snapshot. See `Table.log_store.settle`."""
    required_log(table.store, table.log)
    from lakelog.catalog.logs.statements import logged_table

    seconds = 0.0 if wait is None else duration_millis(wait, argument="wait") / 1000
    return logged_table(table).settle(wait_seconds=seconds)


def settle_newest(table: TableHandle, which: Mapping[str, object]) -> None:
    """Take in batches that wait for their snapshot, before a verb that keeps the newest one. Else it asks no Kafka."""
    named = {key: value for key, value in which.items() if value is not None}
    if not named and waiting(table):
        settled(table, None)


def waiting(table: TableHandle) -> str:
    """The newest batches that writers have acknowledged and no snapshot has, for messages; else an empty text."""
    if table.log is None or table.log.is_eventual:
        return ""
    require_kafka_client()
    from lakelog.protocol.statements import waiting_marks

    found = sorted((mark.user, mark.identifier) for mark in waiting_marks(table.store, table.log.topic_id))
    return ", ".join(f"batch {identifier} of {user!r}" for user, identifier in found)


def verify(
    files: FileStoreTable, log: TableLog | None, *, from_snapshot: int | None, to_snapshot: int | None
) -> LogVerification:
    """Compare log and files. See `Table.log_store.verify`."""
    there = required_log(files, log)
    from lakelog.protocol.upkeep import verify_log

    return verify_log(files, there, from_snapshot=from_snapshot, to_snapshot=to_snapshot)


def transactions(files: FileStoreTable, log: TableLog | None) -> list[LogTransaction]:
    """The open transactions. See `Table.log_store.open_transactions`."""
    there = required_log(files, log)
    from lakelog.protocol.upkeep import list_transactions

    return list_transactions(files, there)


def end(files: FileStoreTable, log: TableLog | None, *, older_than: Age) -> EndedTransactions:
    """Abort open transactions. See `Table.log_store.end_transactions`."""
    there = required_log(files, log)
    from lakelog.protocol.upkeep import end_transactions

    return end_transactions(files, there, age_millis_min=age_millis(older_than, now_millis=system_millis()))


def examine_table(files: FileStoreTable, log: TableLog | None, role: str, *, may_write: bool) -> Iterator[Finding]:
    """The findings about a table. See `Table.upkeep.doctor`."""
    require_kafka_client()
    from lakelog.protocol.upkeep import examine_table

    return examine_table(files, log, role=role, may_write=may_write, lineage=lambda: _lineage_results(files))


def _lineage_results(files: FileStoreTable) -> Iterator[tuple[Status, str, str | None]]:
    """The documents of lineage of columns that commits name: there, and as they were written."""
    from lakelog.lineage.tables.lost_documents import lost_documents
    from lakelog.protocol.upkeep import Status

    lost = lost_documents(files)
    for one in lost:
        others = len(one.named_by) - _NAMED_MAX
        by = ", ".join(one.named_by[:_NAMED_MAX]) + (f" and {others} more" if others > 0 else "")
        found = f"the lineage of columns {one.path}, which {by} names, is lost: {one.why}"
        advice = "restore the file from a copy, or run its job again, which writes it; rows are not affected"
        yield Status.PROBLEM, found, advice
    if not lost:
        yield Status.OK, "the lineage of columns that commits name is there", None


def examine_kafka(warehouse: str, given: Mapping[str, str], role: str, *, may_write: bool) -> Iterator[Finding]:
    """The findings about the Kafka of a warehouse. See `Catalog.doctor`."""
    require_kafka_client()
    from lakelog.protocol.upkeep import examine_kafka

    return examine_kafka(warehouse, given, role=role, may_write=may_write)
