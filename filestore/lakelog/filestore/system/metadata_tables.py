"""The system tables of snapshots, schemas, options, tags, branches, consumers and statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta

from lakelog.common.json_fields import parse_object
from lakelog.common.quoting import cause
from lakelog.common.types import field_to_json
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.snapshots.operations import operation_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.consumers import ConsumerManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.field_options import PREFIX as FIELD_PREFIX
from lakelog.filestore.refs.branches.branching import branch_list

Row = tuple[object, ...]


def snapshots(table: TableStore) -> Iterator[Row]:
    """The rows of `snapshots`, oldest first."""
    for number in table.snapshots.ids():
        one = table.snapshots.find(number)
        if one is not None:  # not expired since the folder was listed
            yield (
                one.id,
                one.schema_id,
                one.commit_user,
                one.commit_identifier,
                one.commit_kind.value,
                one.time_millis,
                one.base_manifest_list,
                one.delta_manifest_list,
                one.changelog_manifest_list,
                one.total_record_count,
                one.delta_record_count,
                one.changelog_record_count,
                one.watermark,
                one.next_row_id,
                operation_of(one),
                one.writer_version,
            )


def schemas(table: TableStore) -> Iterator[Row]:
    """The rows of `schemas`, oldest first."""
    for number in table.schemas.list_ids():
        schema = table.schemas.get(number)
        yield (
            schema.id,
            _json([field_to_json(field) for field in schema.fields]),
            _json(schema.partition_keys),
            _json(schema.primary_keys),
            _json(dict(schema.options)),
            schema.comment,
            schema.time_millis,
        )


def options(table: TableStore) -> Iterator[Row]:
    """The rows of `options`: those of the table's schema."""
    yield from sorted(table.schema.options.items())


def tags(table: TableStore) -> Iterator[Row]:
    """The rows of `tags`, in the order of their names."""
    for tag in sorted(table.snapshots.readable_tags(), key=lambda tag: tag.name):
        created, retained = tag.create_time, tag.time_retained
        yield (
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            tag.snapshot.time_millis,
            tag.snapshot.total_record_count,
            None if created is None else round(created.astimezone(UTC).timestamp() * 1_000),
            None if retained is None else duration_text(retained),
            tag.snapshot.id,
        )


def duration_text(duration: timedelta) -> str:
    """A duration as Java prints it, such as `PT24H` or `PT1H30M`."""
    seconds = duration / timedelta(seconds=1)
    hours, rest = divmod(seconds, 3_600)
    minutes, left = divmod(rest, 60)
    parts = [f"{int(hours)}H" if hours else "", f"{int(minutes)}M" if minutes else "", f"{left:g}S" if left else ""]
    return "PT" + ("".join(parts) or "0S")


def branches(table: TableStore) -> Iterator[Row]:
    """The rows of `branches`, in the order of their names; the main branch is not one of them."""
    for one in branch_list(table):
        yield one.name, one.created_millis, one.tag, one.snapshot_id


def consumers(table: TableStore) -> Iterator[Row]:
    """The rows of `consumers`, in the order of their ids."""
    for one in ConsumerManager(table.file_io, table.paths).readable():
        yield one.consumer_id, one.next_snapshot


def statistics(table: TableStore, snapshot: Snapshot | None) -> Iterator[Row]:
    """The row of `statistics`: the last result of ANALYZE, at the snapshot or before; no row without one."""
    found = None if snapshot is None else snapshot.statistics
    if found is None:
        return
    path = table.paths.statistics(found)
    try:
        given = parse_object(table.file_io.read_bytes(path))
        yield (
            given["snapshotId"],
            given["schemaId"],
            given.get("mergedRecordCount"),
            given.get("mergedRecordSize"),
            _json(given.get("colStats") or {}),
        )
    except (KeyError, ValueError) as error:
        raise damaged(path, f"it is not a readable file of statistics: {cause(error)}") from error


def aggregation_fields(table: TableStore) -> Iterator[Row]:
    """The rows of `aggregation_fields`: each column with the options `fields.<column>.*`."""
    values: dict[str, list[str]] = {}
    keys: dict[str, list[str]] = {}
    for key, value in table.schema.options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == FIELD_PREFIX.rstrip("."):
            values.setdefault(parts[1], []).append(value)
            keys.setdefault(parts[1], []).append(key)
    for field in table.schema.fields:
        yield (
            field.name,
            str(field.type),
            _listed(values.get(field.name, ())),
            _listed(keys.get(field.name, ())),
            field.description,
        )


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
