"""The verbs for the log of a table: each checks that there is a log, and that Kafka's client is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from lakelog.catalog.names.durations import Age, age_millis
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import listed
from lakelog.protocol.access import BrokerStoppedError, client_config_of, require_kafka_client

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.common.timestamps import Timestamp
    from lakelog.filestore import FileStoreTable
    from lakelog.logstore.kafka.clients.rights import Role
    from lakelog.protocol.access import TableLog
    from lakelog.protocol.reading import LogTail
    from lakelog.protocol.upkeep import EndedTransactions, Finding, LogTransaction, LogVerification, Status

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
    from lakelog.protocol.upkeep import Check, examine_table, run_checks

    lineage = Check(name="lineage", look=lambda: _lineage_results(files))
    return chain(examine_table(files, log, role=_role(role), may_write=may_write), run_checks([lineage]))


def _lineage_results(files: FileStoreTable) -> Iterator[tuple[Status, str, str | None]]:
    """The documents of lineage of columns that commits name: there, and as they were written."""
    from lakelog.lineage.tables.lost_documents import lost_documents
    from lakelog.protocol.upkeep import ok, problem

    lost = lost_documents(files)
    for one in lost:
        others = len(one.named_by) - _NAMED_MAX
        by = ", ".join(one.named_by[:_NAMED_MAX]) + (f" and {others} more" if others > 0 else "")
        yield problem(
            f"the lineage of columns {one.path}, which {by} names, is lost: {one.why}",
            "restore the file from a copy, or run its job again, which writes it; rows are not affected",
        )
    if not lost:
        yield ok("the lineage of columns that commits name is there")


def examine_kafka(warehouse: str, given: Mapping[str, str], role: str, *, may_write: bool) -> Iterator[Finding]:
    """The findings about the Kafka of a warehouse. See `Catalog.doctor`."""
    require_kafka_client()
    from lakelog.protocol.upkeep import KafkaChecks, run_checks, without_broker

    settings = cache(lambda: client_config_of({}, warehouse, given=given, starts_broker=False))
    with suppress(LakelogError):  # which the first check reports
        try:
            settings()
        except BrokerStoppedError as error:
            return without_broker(str(error))
    checks = KafkaChecks(settings=settings, role=_role(role), clock=system_millis, may_write=may_write)
    return run_checks(checks.checks())


def _role(name: str) -> Role:
    from lakelog.logstore.kafka.clients.rights import Role

    try:
        return Role(name)
    except ValueError as error:
        raise InvalidRequestError(f"role is {name!r}; expected {listed(Role)}") from error
