"""What a table and its partitions are, as `DESCRIBE TABLE EXTENDED` shows them. Source: FLIP-188, "DESCRIBE"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakelog.common.html import ShowsFields
from lakelog.filestore.options import FILE_FORMAT
from lakelog.filestore.system import PartitionTotals, partition_totals, table_totals
from lakelog.logstore.options import (
    BOOTSTRAP_SERVERS,
    CHANGE_TRACKING,
    LOG_SYSTEM,
    RETENTION,
    UNTRACKED_PARTITIONS,
)

if TYPE_CHECKING:
    from lakelog.warehouse.handle import TableHandle

_DURATIONS = ("retention_millis",)


@dataclass(repr=False, frozen=True, slots=True, kw_only=True)
class TableDescription(ShowsFields):
    """A table at its newest snapshot. None means unknown, or missing for lack of a snapshot or a log.

    Times are milliseconds since 1970. `watermark_millis` is the watermark of the latest written data.
    `bootstrap_servers` are those that the table itself names: others may come from the user's settings. `rows_in_files`
    counts the rows in files, some of which may be older values. `is_compacted` says that a full compaction would find
    nothing to merge. `untracked_where` is the condition for the partitions whose changes are not tracked.
    """

    name: str
    path: str
    comment: str | None
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    bucket_count: int
    schema_id: int
    snapshot_id: int | None
    snapshot_millis: int | None
    watermark_millis: int | None
    last_modified_millis: int | None
    file_format: str
    file_count: int
    size_bytes: int
    rows_in_files: int
    is_compacted: bool
    log_system: str
    log_topic: str | None
    log_topic_id: str | None
    changelog_mode: str | None
    bootstrap_servers: str | None
    retention_millis: int | None
    change_tracking: bool | None
    untracked_where: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription(PartitionTotals):
    """A partition at the newest snapshot. `values` is column -> value. An unpartitioned table is one partition.

    `paths` are the folders with its files. `last_modified_millis` is when its newest file was written, in milliseconds
    since 1970; None if no file records that. `change_tracking` is None in a table without a log.
    """

    change_tracking: bool | None


def describe_table(table: TableHandle) -> TableDescription:
    """See `Table.describe`."""
    schema, options = table.schema, table.schema.options
    snapshot = table.store.snapshot()
    totals = table_totals(table.store, snapshot)
    log = table.log
    return TableDescription(
        name=table.name,
        path=table.path,
        comment=schema.comment,
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        bucket_count=schema.bucket_count,
        schema_id=schema.id,
        snapshot_id=None if snapshot is None else snapshot.id,
        snapshot_millis=None if snapshot is None else snapshot.time_millis,
        watermark_millis=None if snapshot is None else snapshot.watermark,
        last_modified_millis=totals.last_modified_millis,
        file_format=options.get(FILE_FORMAT.key, FILE_FORMAT.default.value).lower(),
        file_count=totals.file_count,
        size_bytes=totals.size_bytes,
        rows_in_files=totals.rows_in_files,
        is_compacted=totals.is_compacted,
        log_system=LOG_SYSTEM.of(options).value,
        log_topic=None if log is None else log.topic,
        log_topic_id=None if log is None else log.topic_id,
        changelog_mode=None if log is None else log.mode.value,
        bootstrap_servers=None if log is None else BOOTSTRAP_SERVERS.of(options) or None,
        retention_millis=None if log is None else RETENTION.of(options),
        change_tracking=None if log is None else CHANGE_TRACKING.of(options),
        untracked_where=None if log is None else UNTRACKED_PARTITIONS.of(options) or None,
    )


def describe_partitions(table: TableHandle) -> list[PartitionDescription]:
    """See `Table.system.partitions`."""
    totals = partition_totals(table.store, table.store.snapshot())
    tracking = _tracked(table, [one.values for one in totals])
    return [
        PartitionDescription(
            **{member.name: getattr(one, member.name) for member in fields(one)}, change_tracking=is_tracked
        )
        for one, is_tracked in zip(totals, tracking, strict=True)
    ]


def described_rows(given: TableDescription | PartitionDescription) -> Iterator[tuple[str, str]]:
    """What DESCRIBE shows: names and texts; times are in UTC."""
    for name in (member.name for member in fields(given)):
        label = name if name in _DURATIONS else name.removesuffix("_millis")
        yield label.replace("_", " ").capitalize(), _shown(name, getattr(given, name))


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if name.endswith("_millis") and name not in _DURATIONS and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _tracked(table: TableHandle, partitions: Sequence[Mapping[str, object]]) -> Iterator[bool | None]:
    """For each partition, whether its changes are in the log."""
    if table.log is None:
        return iter([None] * len(partitions))
    from lakelog.protocol.state import ChangeTracking

    tracking = ChangeTracking.of(table.schema.options)
    if not tracking.is_on or not tracking.off_where or not partitions:
        return iter([tracking.is_on] * len(partitions))
    import pyarrow as pa

    from lakelog.common.arrow import to_arrow_schema

    fields = table.schema.partition_fields
    rows = pa.Table.from_pylist([dict(one) for one in partitions], schema=to_arrow_schema(fields))
    is_logged = tracking.logged(rows, table.schema)
    return iter([True] * len(partitions) if is_logged is None else is_logged.to_pylist())
