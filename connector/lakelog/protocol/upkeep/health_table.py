"""Checks of a table and its log for `lakelog doctor`: topic, retention, open transactions, log, files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, OptionError
from lakelog.common.quoting import listed
from lakelog.common.timestamps import shown_millis
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.tables import latest_of
from lakelog.filestore.options import FILESTORE_OPTIONS, LEFT_OUT
from lakelog.filestore.refs import lost_changelogs
from lakelog.logstore.kafka.clients.cluster import describe_cluster, replicas_of
from lakelog.logstore.kafka.clients.offsets import offsets_since
from lakelog.logstore.kafka.clients.rights import Role
from lakelog.logstore.kafka.clients.topic import describe_topic
from lakelog.logstore.kafka.records.open_transactions import CLIENT_FILE
from lakelog.logstore.options import LOGSTORE_OPTIONS, MAX_RECORD_SIZE, RETENTION
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.statements.statement_runs import target_of
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.upkeep.health import Check, Finding, ok, problem, run_checks, warning
from lakelog.protocol.upkeep.health_kafka import CLOCK_MILLIS_MAX, KafkaChecks, Result, rights_check, role_of
from lakelog.protocol.upkeep.log_check import BucketCheck, check_log
from lakelog.protocol.upkeep.log_transactions import list_transactions
from lakelog.protocol.upkeep.reader_guard import TOPIC_RETENTION, find_readers_behind
from lakelog.protocol.writing.fresh import FreshReads

OPEN_MILLIS_MAX = 60_000  # in a healthy batch an open transaction is younger
WAITING_MILLIS_MAX = 3_600_000  # a snapshot comes at least every ten minutes where a writer lives


@dataclass(slots=True, kw_only=True)
class TableChecks:
    """The checks of one table with a log."""

    table: FileStoreTable
    log: TableLog
    role: Role
    clock: Callable[[], int]
    may_write: bool

    def checks(self) -> list[Check]:
        """The checks, in the order in which they need each other: of Kafka, then of the topic, then of the files."""
        kafka = KafkaChecks(
            settings=lambda: self.log.client_config,
            role=self.role,
            clock=self.clock,
            may_write=self.may_write,
            doctor_id=f"{self.table.uuid}-doctor",
        )
        return [
            *kafka.checks(),
            rights_check(kafka.settings, self.role, self.log.topic, self.table.uuid),
            Check(name="topic", look=self._topic, needs="broker"),
            Check(name="open transactions", look=self._open_transactions, needs="topic"),
            Check(name="retention", look=self._retention, needs="topic"),
            Check(name="readers", look=self._readers, needs="topic"),
            Check(name="log", look=self._log, needs="topic"),
            Check(name="waiting batches", look=self._waiting, needs="log"),
            Check(name="statements", look=self._statements),
            Check(name="table", look=self._table),
            Check(name="options", look=lambda: option_results(self.table)),
        ]

    def _topic(self) -> Iterator[Result]:
        self.log.check_topic()
        topic, buckets = kafka_topic(self.log), self.table.bucket_count
        found, copies = describe_topic(topic), replicas_of(topic)
        yield ok(f"{found.name}, id {found.topic_id}, {found.partition_count} partitions")
        if found.partition_count != buckets:
            yield problem(
                f"the topic has {found.partition_count} partitions, the table {buckets} buckets",
                "partitions were added by another program, and lakelog writes none of them: `lakelog log renew"
                f" {self.table.path}` gives the table a new topic",
            )
        if copies.without_leader:
            yield problem(f"partitions {copies.without_leader} have no leader", "start the brokers that are missing")
        elif copies.in_sync < copies.in_sync_min:
            yield problem(
                f"{copies.in_sync} replicas are in sync, a write needs {copies.in_sync_min}",
                "start the brokers that are missing",
            )
        elif copies.in_sync < copies.replicas_min:
            yield warning(
                f"{copies.in_sync} of {copies.replicas_min} replicas are in sync", "start the brokers that are missing"
            )
        if copies.replicas_min == 1 and describe_cluster(self.log.client_config).broker_count > 1:
            yield warning(
                "each partition has one replica: a lost disk loses the batches that are in no snapshot",
                "raise the number by kafka-reassign-partitions.sh, and set log.replication-factor for new tables",
            )
        wanted = MAX_RECORD_SIZE.of(self.table.schema.options)
        if found.max_message_bytes < wanted:
            yield warning(
                f"the topic takes records of {found.max_message_bytes} bytes, {MAX_RECORD_SIZE.key} says {wanted}",
                "raise max.message.bytes of the topic: larger rows are refused",
            )

    def _retention(self) -> Iterator[Result]:
        deletes_by = describe_topic(kafka_topic(self.log)).deletes_by
        if deletes_by:
            yield problem(
                self.log.deletion_warning(deletes_by), f"`lakelog log repair {self.table.path}` takes them back"
            )
            return
        days = RETENTION.of(self.table.schema.options) / 86_400_000
        yield ok(f"Kafka deletes nothing itself; lakelog keeps records for {days:g} days at least ({RETENTION.key})")

    def _readers(self) -> Iterator[Result]:
        found = find_readers_behind(self.table, self.log, now_millis=self.clock())
        for one in found:
            advice = "let it catch up before they are deleted: give it more cores, or raise log.retention"
            if one.setting == TOPIC_RETENTION:
                advice = f"`lakelog log repair {self.table.path}` takes the setting back"
            yield warning(
                one.found, f"{advice}; what it finds deleted it reads from the files, as long as they have it"
            )
        if not found:
            yield ok("no reader that is known has records to read which are soon deleted")

    def _open_transactions(self) -> Iterator[Result]:
        found = list_transactions(self.table, self.log, clock=self.clock)
        old = [one for one in found if one.age_millis is None or one.age_millis > OPEN_MILLIS_MAX]
        for one in old:
            age = "unknown" if one.age_millis is None else f"{one.age_millis // 1000} s"
            writer = "of another program" if one.user is None else f"of batch {one.batch_id} of {one.user}"
            settings = f" ({CLIENT_FILE} has your settings)" if CLIENT_FILE in one.command else ""
            yield problem(
                f"bucket {one.bucket}: a transaction {writer}, open for {age}, hides records from offset"
                f" {one.first_offset} on from readers",
                f"`lakelog log end-transactions {self.table.path}`, or {one.command}{settings}",
            )
        if not old:
            yield ok(f"{len(found)} open" if found else "none is open")

    def _log(self) -> Iterator[Result]:
        report = check_log(self.table, self.log)
        for bucket in report.buckets:
            if bucket.problem is not None:
                yield problem(f"bucket {bucket.bucket}: {bucket.problem}", _way_out(bucket, self.table.path))
        if all(bucket.problem is None for bucket in report.buckets):
            yield ok(f"{len(report.buckets)} buckets continue where the newest snapshot ends")

    def _waiting(self) -> Iterator[Result]:
        """Batches that are in the log alone, and since when."""
        if self.log.is_eventual:
            yield ok("the log is eventual: each batch has its snapshot")
            return
        try:
            found = FreshReads(self.table, target_of(self.log)).read()
        except CorruptDataError:  # the checks of the log and of the statements name it
            return
        count = sum(len(answer.transactions) for answer in found.answers)
        young = offsets_since(kafka_topic(self.log), self.table.bucket_count, self.clock() - WAITING_MILLIS_MAX)
        old = set()
        for answer in found.answers:
            since = young[answer.bucket]
            for header, end in zip(answer.transactions, answer.ends, strict=True):
                if since is None or end <= since:
                    old.add(header.user)
        if old:
            yield warning(
                f"batches of {listed(sorted(old))} are in the log for more than an hour, and in no snapshot",
                "start the writer, whose next snapshot takes them in; where it does not come back, "
                f"`lakelog log settle {self.table.path}` does",
            )
        else:
            yield ok(f"{count} transactions wait for their snapshot" if count else "none is in the log alone")

    def _statements(self) -> Iterator[Result]:
        prepared = PreparedCommits(self.table)
        problems = prepared.problems(topic_id=self.log.topic_id)
        for one in problems:
            what, _, advice = one.partition("; ")
            yield problem(f"writers refuse to go on: {what}", advice)
        if not problems:
            yield ok(f"{len(prepared.names())} are prepared, which the next writer finishes or cancels")

    def _table(self) -> Iterator[Result]:
        yield from table_results(self.table, self.log.topic_id, self.clock)


def _way_out(bucket: BucketCheck, path: str) -> str:
    """The advice that solves the problem of a bucket of the table at `path`."""
    if bucket.unreadable is not None:
        return f"`lakelog log renew {path} --skip-unreadable`, then start writers and streams again"
    if bucket.missing is not None or bucket.is_rewritten:
        return f"`lakelog log renew {path}`, then start writers and streams again"
    return f"`lakelog log repair {path}` lets writers go on, and prints what is lost"


def table_results(table: FileStoreTable, topic_id: str | None, clock: Callable[[], int]) -> Iterator[Result]:
    """The newest snapshot of a table: readable, in its place, not in the future."""
    state = newest_state(table, topic_id=topic_id)
    check_no_copy(table, state.place)
    snapshot = latest_of(table)
    if snapshot is None:
        yield ok(f"{table.name} has no snapshot yet")
        return
    yield ok(f"{table.name}, snapshot {snapshot.id} of {shown_millis(snapshot.time_millis)}")
    ahead_millis = snapshot.time_millis - clock()
    if ahead_millis > CLOCK_MILLIS_MAX:
        yield problem(
            f"the newest snapshot is {ahead_millis} ms ahead of this machine's clock",
            "synchronize the clocks of this machine and of the writer by NTP: expiry and reads by time go by them",
        )
    if state.log is not None and not state.log.is_whole():
        users = sorted({user for user, _ in state.log.taken()})
        yield warning(
            f"the newest snapshot holds a part of an unfinished batch of {', '.join(users)}",
            "start that query again: it completes the batch",
        )
    yield from _lost_changelogs(table)


def _lost_changelogs(table: FileStoreTable) -> Iterator[Result]:
    for lost in lost_changelogs(table):
        way = "no older snapshot is left that shows what it changed"
        if lost.after is not None:
            since = f"after={lost.after}, " if lost.after else ""
            way = f'changes({since}up_to={lost.snapshot_id}, compare="states") still finds what changed'
        yield problem(
            f"snapshot {lost.snapshot_id} has lost its changelog ({lost.why}): changes() and streams lack its changes",
            f"the rows are right, and {way}; start readers that need every change anew",
        )


def examine_table(
    table: FileStoreTable,
    log: TableLog | None,
    *,
    role: str = Role.WRITER,
    may_write: bool = True,
    clock: Callable[[], int] = system_millis,
    lineage: Callable[[], Iterator[Result]] | None = None,
) -> Iterator[Finding]:
    """The findings about a table and, if it has a log, about its log and its Kafka; each as soon as it is known.

    `lineage` is a further check. Raises InvalidRequestError for an unknown role.
    """
    named = role_of(role)
    more = [] if lineage is None else [Check(name="lineage", look=lineage)]
    if log is None:
        rows = Check(name="table", look=lambda: table_results(table, None, clock))
        return run_checks([rows, Check(name="options", look=lambda: option_results(table)), *more])
    checks = TableChecks(table=table, log=log, role=named, clock=clock, may_write=may_write).checks()
    return run_checks([*checks, *more])


def option_results(table: FileStoreTable) -> Iterator[Result]:
    """The options whose values lakelog does not understand; nothing about the others."""
    for option in (*FILESTORE_OPTIONS, *LOGSTORE_OPTIONS):
        try:
            option.of(table.schema.options)
        except OptionError as error:
            effect = LEFT_OUT.get(option.key, "what needs the option is refused")
            yield problem(
                f"{error}: {effect}",
                f"`lakelog table alter {table.path} --set {option.key}=VALUE`, or --unset {option.key}",
            )
