"""The upkeep of a table: expiry, rescaling, rollback and checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.durations import Age
from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.tables.expiring import ExpiredSnapshots, expire_snapshots, remove_orphan_files
from lakelog.catalog.verbs.group import AnyTable, VerbGroup

if TYPE_CHECKING:
    from lakelog.filestore.commit import FoundCommit
    from lakelog.filestore.expire import Orphans
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs import RolledBack, SnapshotChoice
    from lakelog.protocol.upkeep import Finding, HealthReport


@naming_keywords
class TableUpkeep(VerbGroup[AnyTable]):
    """The maintenance of a table: `table.upkeep`."""

    def rescale(self, buckets: int) -> AnyTable:
        """Change the number of buckets; every row is rewritten. Returns the changed table.

        Writers that opened the table before are refused afterwards. A call continues a rescale that was cut off. The
        log continues in a new topic with that number of partitions: streams that write or read the table end with an
        error, and continue exactly once when they are started again. The older topic stays for streams that have not
        read it to its end, until `log_store.drop_ended` or the drop of the table.
        Raises InvalidRequestError and UnsupportedError for tables whose rows cannot move, and for tables with
        `log.consistency=eventual`; ConflictError when other writers commit all the time, or a stream writes the table;
        NotFoundError without the topic of a log, see `log_store.renew`; UnavailableError.

        >>> table = table.upkeep.rescale(4)
        """
        if self._table.log is None:
            return self._table._of(self._table.store.rescale(buckets))
        from lakelog.catalog.logs.log_life import identifier_for_topics, rescale_log

        name = identifier_for_topics(self._table.identifier, self._table.path, self._table.store.branch)
        return self._table._of(rescale_log(self._table.store, name, buckets, kafka=self._table.kafka))

    def expire_snapshots(
        self, *, retain_max: int | None = None, retain_min: int | None = None, older_than: Age | None = None
    ) -> ExpiredSnapshots:
        """Delete snapshots that are too many or too old, and the files that only they name; returns what was deleted.

        At least `retain_min` and at most `retain_max` snapshots stay; in between, those that are not `older_than` (a
        timedelta, a duration such as `2 h`, or a datetime) stay. By default the table's options decide. Files that a
        consumer, a tag, a branch or a newer snapshot needs are kept. In a log, records are deleted that are older than
        `log.retention` and that no snapshot and no stream needs. Raises InvalidRequestError for bounds that cannot both
        hold, UnavailableError without Kafka.

        >>> expired = table.upkeep.expire_snapshots(retain_min=1, older_than="7 d")
        """
        return expire_snapshots(
            self._table.store, self._table.log, retain_max=retain_max, retain_min=retain_min, older_than=older_than
        )

    def expire_partitions(self) -> Snapshot | None:
        """Delete the partitions that are older than `partition.expiration-time`; None when no partition is.

        Partitions whose values are not times stay. Raises like `drop_partitions`, and InvalidRequestError without the
        option.

        >>> table = table.alter(SetOption("partition.expiration-time", "400 d"))
        >>> table.upkeep.expire_partitions()
        """
        if self._table.log is None:
            return self._table.store.expire_partitions()
        from lakelog.catalog.logs.statements import run_statement
        from lakelog.filestore.write import drop_plan

        return run_statement(
            self._table,
            "EXPIRE PARTITIONS",
            drop_plan(self._table.store, self._table.store._expired_partitions()),
        )

    def drop_partitions(self, where: str | Predicate) -> Snapshot | None:
        """Delete the partitions that meet a condition on partition columns; None when no partition does.

        On a table with a log it is a batch statement with one delete per row in the log. Raises InvalidRequestError for
        a condition on other columns, ConflictError for a table without a log that changed meanwhile.

        >>> table.upkeep.drop_partitions("day = '2026-01-30'")
        """
        if self._table.log is None:
            return self._table.store.drop_partitions(where)
        from lakelog.catalog.logs.statements import run_statement
        from lakelog.filestore.write import drop_plan

        choose = self._table.store._partitions_where(where).matching
        return run_statement(self._table, "DROP PARTITION", drop_plan(self._table.store, choose))

    def remove_orphan_files(
        self, *, older_than: Age = timedelta(days=1), dry_run: bool = True, allow_young: bool = False
    ) -> Orphans:
        """Find the files that no snapshot, changelog, tag, branch or log names; without `dry_run` delete them.

        Only files that were last changed before `older_than` count: a timedelta, a duration such as `2 d`, or a
        datetime. Raises InvalidRequestError for an age below an hour without `allow_young`, which states that no
        writer runs; UnavailableError for a table with a log whose Kafka does not answer.

        >>> found = table.upkeep.remove_orphan_files()
        >>> table.upkeep.remove_orphan_files(dry_run=False)
        """
        from lakelog.catalog.refs.branching import logs_of_lines

        return remove_orphan_files(
            self._table.store,
            logs_of_lines(self._table),
            older_than=older_than,
            dry_run=dry_run,
            allow_young=allow_young,
        )

    def rollback(
        self, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
    ) -> RolledBack:
        """Delete the snapshots after the named one, with their changelogs and tags; with `dry_run`, only list them.

        The snapshot is named as in `restore`, which deletes nothing; prefer it. Streams that write the table continue
        with their next batch; with `rewind_writers` the table accepts their batches since then again. A call continues
        one that was cut off. The ids are reused: streams and consumers that have read deleted snapshots fail. Stop
        writers of other engines before. Data files are deleted by `remove_orphan_files`.
        Raises InvalidRequestError for a table with a log, NotFoundError for a state that has expired.

        >>> gone = table.upkeep.rollback(tag="friday").snapshot_ids
        """
        from lakelog.filestore.expire import take_lineage_of_deleted

        if not dry_run:
            take_lineage_of_deleted(self._table.store)
        return self._table.store.rollback(rewind_writers=rewind_writers, dry_run=dry_run, **which)

    def find_commit(self, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
        """The outcome of a commit that ended with UnknownOutcomeError, which names its uuid and its snapshot.

        >>> newest = table.snapshot()
        >>> print(table.upkeep.find_commit(newest.uuid).outcome)
        """
        return self._table.store.find_commit(commit_uuid, snapshot_id=snapshot_id)

    def new_identity(self) -> AnyTable:
        """Give the table a new uuid and, if it has a log, a new topic; returns the changed table.

        Use it for a copied folder, which would otherwise share the log of its original, and for a table that has lost
        lakelog's state of its writers. The rows do not change; records of the old log that are in no snapshot are left
        out, and streams that read the table need new checkpoint locations. Raises UnavailableError when Kafka does not
        answer; then nothing was changed.

        >>> copy = open_table(folder_of_a_copy).upkeep.new_identity()
        """
        from lakelog.catalog.logs.log_life import identifier_for_topics
        from lakelog.protocol.life import new_identity

        name = identifier_for_topics(self._table.identifier, self._table.path, self._table.store.branch)
        return self._table._of(new_identity(self._table.store, topic_of=name.topic, kafka=self._table.kafka))

    def doctor(self, *, role: str = "writer", read_only: bool = False) -> HealthReport:
        """Check the table and its lineage of columns, and with a log its Kafka: broker, rights, topic, clock.

        The report has findings, each with what to do; `is_sound` is False when one of them is a problem. `role` says
        whose rights are checked: reader, writer or admin. Unless `read_only`, a topic `lakelog-doctor-*` is created and
        deleted, to see the broker's clock.

        >>> assert table.upkeep.doctor().is_sound
        """
        from lakelog.protocol.upkeep import HealthReport

        return HealthReport(findings=tuple(self._examine(role, may_write=not read_only)))

    def _examine(self, role: str, *, may_write: bool) -> Iterator[Finding]:
        from lakelog.catalog.logs.log_verbs import examine_table

        return examine_table(self._table.store, self._table.log, role, may_write=may_write)
