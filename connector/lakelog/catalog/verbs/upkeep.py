"""The upkeep of a table: expiry, rescaling, rollback and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack  # Any: any table

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, VerbGroup
from lakelog.warehouse.verb import Call, Loses, verb

if TYPE_CHECKING:
    from lakelog.catalog.names.durations import Age
    from lakelog.catalog.tables.expiring import ExpiredSnapshots
    from lakelog.filestore.commit import FoundCommit
    from lakelog.filestore.expire import Orphans
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.refs import RolledBack, SnapshotChoice
    from lakelog.protocol.upkeep import HealthReport

_HELP = {
    "buckets": "The number of buckets from now on.",
    "retain_max": "Keep at most this many snapshots.",
    "retain_min": "Keep at least this many snapshots.",
    "older_than": "What is older than a duration, such as 2 h, or than a time; younger ones stay.",
    "where": "A condition on partition columns, such as day < '2026-01-31'.",
    "dry_run": "Only list them.",
    "allow_young": "Take an age below 1 h: no writer may run then.",
    "commit_uuid": "The commit's uuid, as its error names it.",
    "snapshot_id": "The snapshot that its error names: makes the answer certain.",
}


def _lost_behind(upkeep: TableUpkeep[Any], **given: Any) -> str | None:
    would = upkeep.rollback(dry_run=True, **given)
    if not would.snapshot_ids:
        return None
    deleted = ", ".join(map(str, would.snapshot_ids))
    tags = f" and the tags {', '.join(would.tags)}" if would.tags else ""
    return (
        f"a rollback of table {upkeep._table.name} to snapshot {would.target.id} deletes its snapshots {deleted}{tags}"
        "; restore keeps them"
    )


def _lost_with_identity(upkeep: TableUpkeep[Any], **_: object) -> str | None:
    from lakelog.catalog.logs.log_life import lost_with_identity

    return lost_with_identity(upkeep._table)


def _remove_as_paimon(upkeep: TableUpkeep[Any], values: Mapping[str, Any]) -> Orphans:
    """As Paimon's procedure does: files are deleted unless `dry_run` is given."""
    return upkeep.remove_orphan_files(**{"dry_run": False, **values})


@naming_keywords
class TableUpkeep(VerbGroup[AnyTable]):
    """The maintenance of a table: `table.upkeep`."""

    place = "table"
    panel = "Upkeep"

    @verb(
        calls=(Call(name="rescale", takes="bucket_num=buckets"),),
        help=_HELP,
        answer={"bucket_count": "schema.bucket_count"},
    )
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
        from lakelog.filestore import verbs

        if self._table.log is None:
            return self._table._of(verbs.rescale(self._table.store, buckets))
        from lakelog.catalog.logs.log_life import rescale_log

        return self._table._of(rescale_log(self._table, buckets))

    @verb(
        calls=(Call(name="expire_snapshots", takes="retain_max, retain_min, older_than"),),
        help=_HELP,
        answer={
            "deleted_snapshots_count": lambda expired: len(expired.snapshot_ids),
            "snapshot_ids": "snapshot_ids",
            "changelog_ids": "changelog_ids",
            "data_files": "data_files",
            "metadata_files": "metadata_files",
            "log_starts": lambda expired: dict(expired.log_starts),
        },
    )
    def expire_snapshots(
        self, *, retain_max: int | None = None, retain_min: int | None = None, older_than: Age | None = None
    ) -> ExpiredSnapshots:
        """Delete snapshots that are too many or too old; returns what was deleted. Files that only they name go too.

        At least `retain_min` and at most `retain_max` snapshots stay; in between, those that are not `older_than` (a
        timedelta, a duration such as `2 h`, or a datetime) stay. By default the table's options decide. Files that a
        consumer, a tag, a branch or a newer snapshot needs are kept. In a log, records are deleted that are older than
        `log.retention` and that no snapshot and no stream needs. Raises InvalidRequestError for bounds that cannot both
        hold, UnavailableError without Kafka.

        >>> expired = table.upkeep.expire_snapshots(retain_min=1, older_than="7 d")
        """
        from lakelog.catalog.tables.expiring import expire_snapshots

        return expire_snapshots(
            self._table.store, self._table.log, retain_max=retain_max, retain_min=retain_min, older_than=older_than
        )

    @verb(calls=(Call(name="expire_partitions"),), answer={"snapshot_id": "id"}, nothing="no partition is that old")
    def expire_partitions(self) -> Snapshot | None:
        """Delete the partitions that are too old; None when no partition is. `partition.expiration-time` says so.

        Partitions whose values are not times stay. Raises like `drop_partitions`, and InvalidRequestError without the
        option.

        >>> table = table.alter(SetOption("partition.expiration-time", "400 d"))
        >>> table.upkeep.expire_partitions()
        """
        from lakelog.filestore.verbs import expire_partitions, partitions_to_expire

        files = self._table.store
        if self._table.log is None:
            return expire_partitions(files)
        from lakelog.catalog.logs.statements import run_statement
        from lakelog.filestore.write import drop_plan

        return run_statement(self._table, "EXPIRE PARTITIONS", drop_plan(files, partitions_to_expire(files)))

    @verb(
        calls=(Call(name="drop_partitions", takes="where"),),
        help=_HELP,
        answer={"snapshot_id": "id"},
        nothing="no partition meets the condition",
    )
    def drop_partitions(self, where: str | Predicate) -> Snapshot | None:
        """Delete the partitions that meet a condition; None when no partition does.

        On a table with a log it is a batch statement with one delete per row in the log. Raises InvalidRequestError for
        a condition on other columns, ConflictError for a table without a log that changed meanwhile.

        >>> table.upkeep.drop_partitions("day = '2026-01-30'")
        """
        from lakelog.filestore.verbs import drop_partitions, partitions_where

        files = self._table.store
        if self._table.log is None:
            return drop_partitions(files, where)
        from lakelog.catalog.logs.statements import run_statement
        from lakelog.filestore.write import drop_plan

        return run_statement(self._table, "DROP PARTITION", drop_plan(files, partitions_where(files, where).matching))

    @verb(
        calls=(Call(name="remove_orphan_files", takes="older_than, dry_run", run=_remove_as_paimon),),
        help=_HELP,
        answer={
            "deleted_file_count": lambda found: len(found.files),
            "deleted_file_total_size_in_bytes": "size_bytes",
            "is_dry_run": "is_dry_run",
        },
        parts={
            "files": lambda found: [asdict(file) for file in found.files],
            "folders": lambda found: [{"path": f"{folder}/"} for folder in found.folders],
        },
    )
    def remove_orphan_files(
        self, *, older_than: Age = timedelta(days=1), dry_run: bool = True, allow_young: bool = False
    ) -> Orphans:
        """Find orphan files; without `dry_run` delete them. No snapshot, changelog, tag, branch or log names them.

        Only files that were last changed before `older_than` count: a timedelta, a duration such as `2 d`, or a
        datetime. Raises InvalidRequestError for an age below an hour without `allow_young`, which states that no
        writer runs; UnavailableError for a table with a log whose Kafka does not answer.

        >>> found = table.upkeep.remove_orphan_files()
        >>> table.upkeep.remove_orphan_files(dry_run=False)
        """
        from lakelog.catalog.refs.branching import logs_of_lines
        from lakelog.catalog.tables.expiring import remove_orphan_files

        return remove_orphan_files(
            self._table.store,
            logs_of_lines(self._table),
            older_than=older_than,
            dry_run=dry_run,
            allow_young=allow_young,
        )

    @verb(
        loses=Loses.NEWER_SNAPSHOTS,
        loss=_lost_behind,
        calls=(
            Call(name="rollback", takes="version, snapshot=snapshot_id, tag"),
            Call(name="rollback_to_timestamp", takes="timestamp", needs=("timestamp",)),
            Call(name="rollback_to_watermark", takes="watermark", needs=("watermark",)),
        ),
        answer={
            "snapshot_id": "target.id",
            "deleted_snapshots": "snapshot_ids",
            "deleted_changelogs": "changelog_ids",
            "deleted_tags": "tags",
            **{name: name for name in ("rows_added", "rows_removed", "rows_changed", "rewinds_writers")},
        },
        parts={"writers": lambda done: [asdict(one) for one in done.writers]},
        panel="History",
    )
    def rollback(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        force: bool = False,  # noqa: ARG002  # the guard of the declaration takes it
        **which: Unpack[SnapshotChoice],
    ) -> RolledBack:
        """Delete what came after an older state. With `dry_run` the snapshots, changelogs and tags are only listed.

        The snapshot is named as in `restore`, which deletes nothing; prefer it. Streams that write the table continue
        with their next batch; with `rewind_writers` the table accepts their batches since then again. A call continues
        one that was cut off. The ids are reused: streams and consumers that have read deleted snapshots fail. Stop
        writers of other engines before. Data files are deleted by `remove_orphan_files`.
        Raises InvalidRequestError without `force` if there are snapshots to be deleted, which it names, and for a table
        with a log; NotFoundError for a state that has expired.

        >>> gone = table.upkeep.rollback(tag="friday", force=True).snapshot_ids
        """
        from lakelog.filestore import expire, verbs

        if not dry_run:
            expire.take_lineage_of_deleted(self._table.store)
        return verbs.rollback(self._table.store, rewind_writers=rewind_writers, dry_run=dry_run, **which)

    @verb(
        calls=(Call(name="find_commit"),),
        help=_HELP,
        answer={name: name for name in ("outcome", "snapshot_id", "expired_up_to", "is_open", "advice")},
    )
    def find_commit(self, commit_uuid: str, *, snapshot_id: int | None = None) -> FoundCommit:
        """The outcome of a commit without an answer. UnknownOutcomeError names its uuid and its snapshot.

        >>> newest = table.snapshot()
        >>> print(table.upkeep.find_commit(newest.uuid).outcome)
        """
        from lakelog.filestore.commit import find_commit

        return find_commit(self._table.store, commit_uuid, snapshot_id=snapshot_id)

    @verb(
        loses=Loses.RECORDS,
        loss=_lost_with_identity,
        calls=(Call(name="new_identity"),),
        answer={"path": "path", "uuid": "uuid"},
    )
    def new_identity(self, *, force: bool = False) -> AnyTable:  # noqa: ARG002  # the guard of the declaration takes it
        """Give a copied table a new uuid and a new log; returns the changed table.

        Use it for a copied folder, which would otherwise share the log of its original, and for a table that has lost
        lakelog's state of its writers. The rows do not change, and streams that read the table need new checkpoint
        locations. A copy has what its snapshots have; of an original, batches that wait for their snapshot are taken in
        first. Raises InvalidRequestError without `force` if they cannot be taken in, such as without the topic, and
        names them; UnavailableError when Kafka does not answer, and then nothing was changed.

        >>> copy = open_table(folder_of_a_copy).upkeep.new_identity()
        """
        from lakelog.catalog.logs.log_life import new_identity

        return self._table._of(new_identity(self._table))

    def doctor(self, *, role: str = "writer", read_only: bool = False) -> HealthReport:
        """Check the table and its lineage of columns, and with a log its Kafka: broker, rights, topic, clock.

        The report has findings, each with what to do; `is_sound` is False when one of them is a problem. `role` says
        whose rights are checked: reader, writer or admin. Unless `read_only`, a topic `lakelog-doctor-*` is created and
        deleted, to see the broker's clock.

        >>> assert table.upkeep.doctor().is_sound
        """
        from lakelog.catalog.logs.log_verbs import examine_table
        from lakelog.protocol.upkeep import HealthReport

        found = examine_table(self._table.store, self._table.log, role, may_write=not read_only)
        return HealthReport(findings=tuple(found))
