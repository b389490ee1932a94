"""Reads of a table with a second branch: a partition that one branch lacks is read from the other.

With `scan.fallback-branch` the table's own partitions come first, with `scan.primary-branch` those of the named branch.
A partition is never mixed from both. Only reads of rows do this; changes, writes and upkeep use the table alone.
Source: Paimon, "Manage branches", and `FallbackReadFileStoreTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.file_pruning import Pruning
from lakelog.filestore.read.scan import POSTPONE_BUCKET, Plan, plan_splits
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager


def plan_read(table: TableStore, snapshot: Snapshot | None, *, where: Predicate | None = None) -> Plan:
    """The splits of a read of a snapshot that may hold rows which pass `where`, in either branch. See `plan`."""
    own = plan_splits(table, snapshot, where=where)
    primary = SCAN_PRIMARY_BRANCH.of(table.schema.options)
    name = SCAN_FALLBACK_BRANCH.of(table.schema.options) or primary
    if name is None or name == table.branch:
        return own
    other = branch_table(table, name)
    beside = _beside(table, snapshot, other)
    theirs = plan_splits(other, beside, where=where)
    other_is_first = not SCAN_FALLBACK_BRANCH.of(table.schema.options)
    first = _partitions(other, beside) if other_is_first else _partitions(table, snapshot)
    kept = [split for split in own.splits if not other_is_first or split.bucket_id.partition not in first]
    filled = [split for split in theirs.splits if other_is_first or split.bucket_id.partition not in first]
    return replace(own, splits=(*kept, *(replace(split, branch=name) for split in filled)))


def branch_table(table: TableStore, name: str) -> TableStore:
    """The branch of a split, with its newest schema; for a table in the columns of an older state, with one of these.

    Raises NotFoundError for a missing branch, and UnsupportedError for a branch without the table's columns.
    """
    other = replace(table, branch=name)
    schemas = SchemaManager(table.file_io, other.paths)
    schema = schemas.latest()
    if schema is None:
        raise NotFoundError(
            f"table {table.name} names the branch {name!r} in {SCAN_FALLBACK_BRANCH.key} or {SCAN_PRIMARY_BRANCH.key}, "
            "and has no such branch: remove the option, or create the branch"
        )
    if not _are_alike(table.schema, schema) and table.schema.id < max(table.schemas.list_ids()):
        older = map(schemas.get, sorted(schemas.list_ids(), reverse=True))
        schema = next((one for one in older if _are_alike(table.schema, one)), schema)
    ours, theirs = _shape(table.schema.fields), _shape(schema.fields)
    if not _are_alike(table.schema, schema) or schema.is_change_log or table.schema.is_change_log:
        raise UnsupportedError(
            f"branch {name!r} of table {table.name} cannot fill in for partitions: its columns are {_shown(theirs)}, "
            f"partitioned by {listed(schema.partition_keys)}; the table's are {_shown(ours)}, partitioned by "
            f"{listed(table.schema.partition_keys)}. Give both the same"
        )
    return replace(other, schema=schema)


def _beside(table: TableStore, snapshot: Snapshot | None, other: TableStore) -> Snapshot | None:
    """The snapshot of the other branch beside one of the table: the newest, or the one at its time."""
    if snapshot is None or snapshot.id == table.snapshots.latest_id():
        return other.snapshots.latest()
    return other.snapshots.at_or_before(snapshot.time_millis)


def _partitions(table: TableStore, snapshot: Snapshot | None) -> set[bytes]:
    """The partitions with files whose rows reads show."""
    least = Pruning(table, None).min_level
    return {
        entry.partition
        for entry in table.live_files.of(snapshot).entries()
        if entry.bucket != POSTPONE_BUCKET and entry.file.level >= least
    }


def _are_alike(one: TableSchema, other: TableSchema) -> bool:
    return _shape(one.fields) == _shape(other.fields) and one.partition_keys == other.partition_keys


def _shape(fields: Sequence[DataField]) -> list[tuple[str, DataType]]:
    return [(field.name, field.type.with_nullable(True)) for field in fields]


def _shown(shape: Sequence[tuple[str, DataType]]) -> str:
    return listed(f"{name} {kind}" for name, kind in shape)
