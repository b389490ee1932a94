"""The verbs of a table's log: reading, checking, adding, removing and renewing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any  # Any: any table

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, VerbGroup
from lakelog.common.errors import InvalidRequestError
from lakelog.warehouse.verb import Call, Loses, verb

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.names.durations import Age, Duration
    from lakelog.common.timestamps import Timestamp
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.protocol.upkeep import EndedTransactions, LogTransaction, LogVerification

_ANSWER = {"topic": "log.topic", "topic_id": "log.topic_id", "name": "name"}
_TRANSACTION = {
    name: name for name in ("bucket", "first_offset", "high_watermark", "age_millis", "user", "batch_id", "command")
}
_HELP = {
    "from_snapshot": "By default the oldest; 0: before all.",
    "to_snapshot": "By default the newest.",
    "older_than": "Only those that are open, or ended, before this time or for so long, such as 2 h.",
    "user": "The commit user, as the stream's error names it.",
    "options": "KEY=VALUE, options of the log.",
    "wait": "How long the snapshot of a writer that lives is awaited, such as 10 s.",
}
_OLD = timedelta(minutes=15)  # a transaction that is open for so long has no writer


def _lost_with_topic(log_store: TableLogStore[Any], *, keep_topic: bool = False, **_: object) -> str:
    table = log_store._table
    topic = "no topic" if table.log is None else table.log.topic
    ends = "is left to its other readers" if keep_topic else "is deleted with the records in it"
    from lakelog.catalog.logs.log_verbs import waiting

    names = waiting(table)
    waits = f"; {names} and what is before it in the log is taken in, or lost if the topic does not exist"
    return f"the log of table {table.name} ends, and the topic {topic} {ends}{waits if names else ''}"


def _rows(found: Sequence[LogTransaction]) -> list[dict[str, object]]:
    return [{name: getattr(one, name) for name in _TRANSACTION} for one in found]


def _has_old(found: Sequence[LogTransaction]) -> bool:
    return any(one.age_millis is None or one.age_millis >= _OLD / timedelta(milliseconds=1) for one in found)


@naming_keywords
class TableLogStore(VerbGroup[AnyTable]):
    """The log of a table in Kafka: `table.log_store`. `table.log` names its topic."""

    place = "log"

    def tail(
        self,
        *,
        start: Timestamp | Mapping[int, int] = "now",
        key: Mapping[str, object] | None = None,
        follow: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The changes in the log as they are committed, endlessly; without `follow`, those that are committed now.

        They have the columns `_row_kind`, `_bucket`, `_offset`, `_timestamp`, `_user` and `_batch_id` (of the writer's
        batch), then the table's. `start` is `now`, `earliest`, `snapshot` (behind the newest one), a timestamp, or
        bucket -> offset for these buckets alone. `key` has a value for each primary key column; only changes of that
        key are given. Raises InvalidRequestError for a table without a log, LogTruncatedError for deleted offsets,
        UnavailableError.

        >>> for batch in table.log_store.tail(start="earliest", follow=False):
        ...     print(batch.to_pylist())
        """
        from lakelog.catalog.logs.log_verbs import changes_of, open_tail

        return changes_of(open_tail(self._table.store, self._table.log, start=start, key=key, follow=follow))

    @verb(
        calls=(Call(name="verify_log"),),
        help=_HELP,
        answer={
            name: name
            for name in ("is_equal", "from_snapshot", "to_snapshot", "row_count", "change_count", "difference_count")
        },
        parts={"first": lambda found: [] if found.first is None else [asdict(found.first)]},
        is_problem=lambda found, _: not found.is_equal,
    )
    def verify(self, *, from_snapshot: int | None = None, to_snapshot: int | None = None) -> LogVerification:
        """Compare a log with the files, row by row. A snapshot plus the changes up to another must be the other's rows.

        By default from the oldest snapshot of the log that the table has now to the newest; 0 is the state before the
        first one. The result has the number of differing rows and the first of them. Memory is bounded by
        `read.memory-budget`; larger tables go through files in the temporary folder. Raises LogTruncatedError when
        records of the range were deleted, NotFoundError for a snapshot that does not exist, InvalidRequestError for one
        before the log, UnavailableError.

        >>> assert table.log_store.verify().is_equal
        """
        from lakelog.catalog.logs.log_verbs import verify

        return verify(self._table.store, self._table.log, from_snapshot=from_snapshot, to_snapshot=to_snapshot)

    @verb(
        calls=(Call(name="open_transactions"),),
        help=_HELP,
        answer=_TRANSACTION,
        nothing="no transaction is open",
        is_problem=lambda found, values: bool(found) if "older_than" in values else _has_old(found),
    )
    def open_transactions(self, *, older_than: Age | None = None) -> list[LogTransaction]:
        """The open transactions, which hide records. It is the oldest one of each bucket.

        A running batch has one for a short time; with `older_than`, a timedelta, a duration or a datetime, only those
        that are open for so long are given. Each comes with the Apache Kafka command that ends it.

        >>> for transaction in table.log_store.open_transactions():
        ...     print(transaction)
        """
        from lakelog.catalog.logs.log_verbs import transactions
        from lakelog.catalog.names.durations import age_millis
        from lakelog.common.clock import system_millis

        found = transactions(self._table.store, self._table.log)
        if older_than is None:
            return found
        old_millis = age_millis(older_than, now_millis=system_millis())
        return [one for one in found if one.age_millis is None or one.age_millis >= old_millis]

    @verb(
        calls=(Call(name="end_transactions"),),
        help=_HELP,
        answer={"ended": lambda done: len(done.ended), "left": lambda done: len(done.left)},
        parts={
            "aborted_transactions": lambda done: _rows(done.ended),
            "left_transactions": lambda done: _rows(done.left),
        },
        is_problem=lambda done, _: _has_old(done.left),
    )
    def end_transactions(self, *, older_than: Age = _OLD) -> EndedTransactions:
        """Abort open transactions; returns those that were aborted and those that are left.

        Transactions of lakelog's writers are ended safely: a writer that is still alive starts its batch again. Those
        of other programs are ended only on the embedded broker, and their records are lost if the program is still
        alive.

        >>> ended = table.log_store.end_transactions(older_than="1 h")
        """
        from lakelog.catalog.logs.log_verbs import end

        return end(self._table.store, self._table.log, older_than=older_than)

    @verb(calls=(Call(name="settle"),), help=_HELP, answer={"snapshot_id": "id"}, nothing="the table has no snapshot")
    def settle(self, *, wait: Duration | None = None) -> Snapshot | None:
        """Take what the log has into a snapshot; returns the newest one.

        The next batch of any writer does the same: this is for a table whose writer is gone, and for a snapshot now. No
        writer is stopped. With `wait`, a timedelta or a duration, the snapshot of a writer that lives is awaited so
        long. Batch statements in the log are finished; of a batch whose writer has died, the parts that are in the log
        are taken in. Raises InvalidRequestError for a table without a log, UnsupportedError for an eventual log,
        CorruptDataError for a log that no snapshot may take in, UnavailableError.

        >>> snapshot = table.log_store.settle()
        """
        from lakelog.catalog.logs.log_verbs import settled

        return settled(self._table, wait)

    @verb(calls=(Call(name="abandon_writer"),), help=_HELP, answer={"snapshot_id": "id"})
    def abandon_writer(self, user: str) -> Snapshot:
        """Let aligned streams stop waiting for a lost writer; returns a snapshot.

        `user` is the commit user that their error names, whose batch the newest snapshot holds in part. Nothing is
        dropped: the part stays, and if the writer comes back, it completes the batch in a later snapshot. Raises
        NotFoundError when no batch of the user is unfinished, InvalidRequestError for a table without a log.

        >>> table.log_store.abandon_writer("a-user-that-the-error-names")
        """
        from lakelog.protocol.statements import abandon_writer

        if self._table.log is None:
            raise InvalidRequestError(
                f"table {self._table.name} has no log, so no snapshot of it holds a part of a batch"
            )
        return abandon_writer(self._table.store, self._table.log.topic_id, user)

    @verb(calls=(Call(name="add_log"),), help=_HELP, answer=_ANSWER)
    def add(self, options: Mapping[str, str] | None = None) -> AnyTable:
        """Give the table a log; returns the changed table. It begins at the newest snapshot.

        `options` are those of the log: `log.*` and `change-tracking`. Its topic has one partition per bucket. Writers
        and streams that opened the table before end with an error; when they are started again they continue. Streams
        that read the table first follow the earlier snapshots, then the log. If a call was cut off, make it again.
        Raises InvalidRequestError for a table that has a log, for options that do not fit, and for a table without a
        fixed number of buckets, UnsupportedError for a table that does not keep the last row of a key, and
        UnavailableError when Kafka does not answer; then nothing was changed. Source: FLIP-188, "Session Options".

        >>> table = table.log_store.add({"log.retention": "7 d"})
        """
        from lakelog.catalog.logs.log_life import add_log

        return self._table._of(add_log(self._table, options or {}))

    @verb(
        loses=Loses.RECORDS,
        loss=_lost_with_topic,
        calls=(Call(name="remove_log", takes="keep_topic"),),
        help=_HELP,
        answer=_ANSWER,
    )
    def remove(
        self,
        *,
        keep_topic: bool = False,
        skip_unreadable: bool = False,
        force: bool = False,  # noqa: ARG002  # the guard of the declaration takes it
    ) -> AnyTable:
        """End the log, and delete its topic; returns the changed table. With `keep_topic` the topic stays.

        Logged changes that are in no snapshot yet are first taken into one. Writers and streams that opened the table
        before end with an error; when they are started again they continue with the files. A stream that had not read
        the log up to its end needs the topic, or reads on from the snapshot that it had reached. If a call was cut off,
        make it again. `skip_unreadable` leaves out records that cannot be taken in, such as those of another program,
        and what follows them in their bucket; if the topic is lost, it leaves out all changes that are in no snapshot.
        A warning names the offsets. Raises CorruptDataError for such records, InvalidRequestError for a table without a
        log, and while a batch is logged in only a part of the buckets, as only its stream can finish it; ConflictError
        while a stream writes the table; NotFoundError without the topic, see `renew`; UnavailableError.

        Without `force` it is refused: records that a stream has not read may be lost with the topic.

        >>> table = table.log_store.remove(keep_topic=True, force=True)
        """
        from lakelog.catalog.logs.log_life import remove_log

        return self._table._of(remove_log(self._table, keep_topic=keep_topic, skip_unreadable=skip_unreadable))

    @verb(
        loses=Loses.RECORDS,
        loss=_lost_with_topic,
        calls=(Call(name="renew_log", takes="keep_topic"),),
        help=_HELP,
        answer=_ANSWER,
    )
    def renew(
        self,
        *,
        keep_topic: bool = False,
        skip_unreadable: bool = False,
        force: bool = False,  # noqa: ARG002  # the guard of the declaration takes it
    ) -> AnyTable:
        """Give the log a new topic; returns the changed table. It begins at the newest snapshot.

        Use it when a topic was lost or needs other settings. The older topic is ended and deleted as by `remove`. If it
        does not exist, batches that were logged but are in no snapshot are lost with it: streams write them again,
        except batches that wait for the snapshot of an interval, which the error without `force` names. The same holds
        for what `skip_unreadable` leaves out, see `remove`. Raises CorruptDataError for records that cannot be taken
        in, InvalidRequestError for a table without a log, ConflictError while a stream writes the table,
        UnavailableError.

        >>> table = table.log_store.renew(force=True)
        """
        from lakelog.catalog.logs.log_life import renew_log

        return self._table._of(renew_log(self._table, keep_topic=keep_topic, skip_unreadable=skip_unreadable))

    @verb(calls=(Call(name="drop_ended_logs"),), help=_HELP, answer={"topic": ""})
    def drop_ended(self, *, older_than: Age | None = None) -> list[str]:
        """Delete the older topics of the table; returns their names.

        A rescale leaves the older topic for streams that have not read it to its end; `renew` and `remove` do so with
        `keep_topic`. Topics that ended before `older_than`, a timedelta, a duration such as `2 h`, or a datetime, are
        deleted; the default is `log.retention`. A topic stays while a stream that runs, or ended less than a day ago,
        has not read it to its end. Streams that come back later continue in the files, if they had read up to a living
        snapshot. Raises InvalidRequestError while a log is half ended, UnavailableError.

        >>> topics = table.log_store.drop_ended(older_than="2 h")
        """
        from lakelog.catalog.logs.log_life import drop_ended_logs

        return drop_ended_logs(self._table, older_than)
