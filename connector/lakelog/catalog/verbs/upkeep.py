"""The upkeep of a table: compaction, expiry, consumers, and checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from lakelog.catalog.names.durations import Age
from lakelog.catalog.tables.upkeep import ExpiredSnapshots, expire_snapshots, remove_orphan_files
from lakelog.catalog.verbs.branches import TableBranches

if TYPE_CHECKING:
    from lakelog.filestore.commit.outcomes import FoundCommit
    from lakelog.filestore.expire.orphans import Orphans
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.consumers import Consumer
    from lakelog.protocol.upkeep.health import Finding, HealthReport


class TableUpkeep(TableBranches):
    """The verbs of upkeep."""

    def compact(self, *, full: bool = False) -> Snapshot | None:
        """Merge the runs that are due by the table's options, or with `full` all runs of every bucket; then expire.

        None when nothing was due. Raises ConflictError when another compaction of the same files came first.
        """
        return self._files.compact(full=full)

    def rescale(self, buckets: int) -> Self:
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
        from lakelog.catalog.logs.log_life import identifier_for_topics, rescale_log

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
        from lakelog.catalog.refs.branching import logs_of_lines

        return remove_orphan_files(
            self._files, logs_of_lines(self), older_than=older_than, dry_run=dry_run, allow_young=allow_young
        )

    def consumers(self) -> list[Consumer]:
        """The consumers of the table: no snapshot that one of them has not read expires."""
        return self._files.consumers()

    def reset_consumer(self, consumer_id: str, next_snapshot: int) -> None:
        """Set the next snapshot of a consumer, or create it. Raises InvalidRequestError for an expired snapshot."""
        self._files.reset_consumer(consumer_id, next_snapshot)

    def delete_consumer(self, consumer_id: str) -> None:
        """Delete a consumer, so that snapshots it has not read can expire. Raises NotFoundError for an unknown one."""
        self._files.delete_consumer(consumer_id)

    def find_commit(self, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
        """The outcome of a commit that ended with UnknownOutcomeError, which names its uuid and its snapshot."""
        return self._files.find_commit(commit_uuid, snapshot_id=snapshot_id)

    def doctor(self, *, role: str = "writer", read_only: bool = False) -> HealthReport:
        """Check the table and, with a log, its Kafka: broker, rights, transactions, clock, topic, retention, log.

        The report has findings, each with what to do; `is_sound` is False when one is a problem. `role` is whose rights
        are needed: reader, writer or admin. Unless `read_only`, a topic `lakelog-doctor-*` is created and deleted, by
        which the broker's clock is seen.
        """
        from lakelog.protocol.upkeep.health import HealthReport

        return HealthReport(findings=tuple(self._examine(role, may_write=not read_only)))

    def _examine(self, role: str, *, may_write: bool) -> Iterator[Finding]:
        from lakelog.catalog.logs.log_verbs import examine_table

        return examine_table(self._files, self.log, role, may_write=may_write)
