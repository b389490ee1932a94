"""Upkeep of a table that may have a log: expiry of snapshots and records, and orphan files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from lakelog.catalog.names.durations import Age, age_millis
from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import verbs
from lakelog.filestore.expire import Expired, Retention
from lakelog.protocol.access import require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.expire import NamedElsewhere, OrphanFile, Orphans
    from lakelog.protocol.access import TableLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSnapshots(Expired):
    """What an expiry deleted, also in the log: `log_starts` is bucket -> the new first offset, where it moved."""

    log_starts: Mapping[int, int] = field(default_factory=dict)


def expire_snapshots(
    files: FileStoreTable,
    log: TableLog | None,
    *,
    retain_max: int | None,
    retain_min: int | None,
    older_than: Age | None,
) -> ExpiredSnapshots:
    """Expire snapshots, then records of the log. See `Table.upkeep.expire_snapshots`."""
    now_millis = system_millis()
    retention = retention_of(
        Retention.of(files),
        retain_max=retain_max,
        retain_min=retain_min,
        age_millis=None if older_than is None else age_millis(older_than, now_millis=now_millis),
    )
    expired = verbs.expire_snapshots(files, retention=retention, now_millis=now_millis)
    starts: Mapping[int, int] = {}
    if log is not None:
        require_kafka_client()
        from lakelog.protocol.upkeep import expire_log  # needs the extra

        starts = expire_log(files, log, now_millis=now_millis, patience=log.patience())
    return ExpiredSnapshots(**{one.name: getattr(expired, one.name) for one in fields(expired)}, log_starts=starts)


def retention_of(
    options: Retention, *, retain_max: int | None, retain_min: int | None, age_millis: int | None
) -> Retention:
    """The retention of the table's options, overridden by the arguments of the call. Pure.

    Raises InvalidRequestError for numbers below 1 and for a maximum below the minimum.
    """
    for name, count in (("retain_max", retain_max), ("retain_min", retain_min)):
        if count is not None and count < 1:
            raise InvalidRequestError(f"{name} is {count}; expected 1 or more: the newest snapshot always stays")
    merged = replace(
        options,
        count_min=options.count_min if retain_min is None else retain_min,
        count_max=options.count_max if retain_max is None else retain_max,
        age_millis=options.age_millis if age_millis is None else age_millis,
    )
    if merged.count_max < merged.count_min:
        raise InvalidRequestError(
            f"at most {merged.count_max} snapshots and at least {merged.count_min} cannot both be kept; "
            "give retain_min (--retain-min) too"
        )
    return merged


def remove_orphan_files(
    files: FileStoreTable,
    logs: Sequence[tuple[FileStoreTable, TableLog]],
    *,
    older_than: Age,
    dry_run: bool,
    allow_young: bool,
) -> Orphans:
    """Find or delete orphan files; files that the log of the table or of a branch names are kept.

    Marks of writers that no run asks for are orphans too. See `Table.upkeep.remove_orphan_files`.
    """
    find_named: NamedElsewhere | None = None
    now_millis = system_millis()
    old_millis = age_millis(older_than, now_millis=now_millis)
    marks: list[OrphanFile] = []
    if logs:
        require_kafka_client()
        from lakelog.protocol.life import ended_marks, names_in_log  # needs the extra

        before_millis = now_millis - old_millis
        marks = [mark for line, log in logs for mark in ended_marks(line, log, before_millis=before_millis)]

        in_logs = [names_in_log(line, log) for line, log in logs]

        def names() -> set[str]:
            return {name for named in in_logs for name in named()}

        find_named = names

    found = verbs.remove_orphan_files(
        files, older_than_millis=old_millis, dry_run=dry_run, allow_young=allow_young, named_elsewhere=find_named
    )
    if not dry_run:
        for mark in marks:
            files.file_io.delete(mark.path)
    return replace(found, files=(*found.files, *marks))
