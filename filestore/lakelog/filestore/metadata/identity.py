"""Which table a folder holds, and whether it still knows who wrote it.

Every snapshot of lakelog names the table's uuid (property `lakelog.table-uuid`), so that a writer whose table was
dropped and made anew under the same name is found by the snapshot that it reads anyway. Tables of others have no
uuid: there the time in the schema's file is compared. `filestore.metadata.state_keeping` says what must not be lost.
"""

from __future__ import annotations

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.filestore.metadata.snapshot import SCHEMA_DIGEST_KEY, Snapshot
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.metadata.users import CarriedProperties, carried_properties
from lakelog.filestore.options.layout import TABLE_PLACE, TABLE_UUID
from lakelog.filestore.schema.schema_manager import SchemaManager

UUID_KEY = TABLE_UUID.key
PLACE_KEY = TABLE_PLACE.key


class StateLostError(CorruptDataError):
    """What lakelog knew of the writers of a table was in snapshots that another engine has expired."""


class OutdatedSnapshotError(NotFoundError):
    """A snapshot is not the newest any more, and the one whose properties it carried on has expired: look again."""


def carried_by(table: TableStore, snapshot: Snapshot | None) -> CarriedProperties:
    """What a snapshot carries of lakelog's, for those who commit behind it or read its log.

    Raises ConflictError when the folder holds another table than the one that was opened; when the snapshots that would
    have it have expired, StateLostError for the newest snapshot, OutdatedSnapshotError for another.
    """
    carried = carried_anyhow(table, snapshot)
    if not carried.properties and snapshot is not None:
        _check_state_not_lost(table, snapshot, oldest=carried.foreign[-1].id)
    return carried


def carried_anyhow(table: TableStore, snapshot: Snapshot | None) -> CarriedProperties:
    """As `carried_by`, and nothing where the snapshots that would have it have expired."""
    carried = carried_properties(snapshot, table.snapshots)
    check_same_table(table, carried.properties.get(UUID_KEY))
    return carried


def check_same_table(table: TableStore, found: str | None) -> None:
    """Raise ConflictError when the folder holds another table than the one that was opened.

    `found` is the uuid that a snapshot names: when it is the table's own, no file is read.
    """
    if not (found and found == table.uuid) and not is_same_table(table):
        raise ConflictError(
            f"table {table.path} was dropped, renamed, or made anew, since it was opened: nothing is written or read "
            "by the older one. Open the table again, a renamed one by its new name; a stream goes on in a renamed "
            "table, into a table made anew it needs a new checkpoint location"
        )


def is_same_table(table: TableStore) -> bool:
    """Whether the schema files in the folder are those of the table that was opened. Reads them."""
    schemas = SchemaManager(table.file_io, table.paths)
    try:
        if table.uuid:
            newest = schemas.latest()
            return newest is not None and TABLE_UUID.of(newest.options) == table.uuid
        opened = schemas.get(table.schema.id)
    except NotFoundError:
        return False
    return opened.time_millis == table.schema.time_millis


def latest_of(table: TableStore) -> Snapshot | None:
    """The newest snapshot, read now; None before the first commit. Raises ConflictError as `check_same_table`.

    A table that was renamed or dropped would look like an empty one.
    """
    latest = table.snapshots.latest()
    if latest is None:
        check_same_table(table, None)
    return latest


def check_is_of(table: TableStore, snapshot: Snapshot) -> None:
    """Raise ConflictError for a snapshot of another table, made under the same name since this one was opened.

    Snapshots without a uuid pass.
    """
    if snapshot.properties.get(UUID_KEY, table.uuid) != table.uuid:
        check_same_table(table, None)


def check_schema(table: TableStore, snapshot: Snapshot | None) -> None:
    """Raise NotFoundError where the schema of a snapshot was lost; a table may have been opened before it was made.

    Raises ConflictError where the snapshot is of another table, which was made under the same name since, and
    CorruptDataError where the schema is not the one that the snapshot names: another table's was put there.
    """
    if snapshot is None:
        return
    check_is_of(table, snapshot)
    if snapshot.schema_id > table.schema.id:
        table.schemas.get(snapshot.schema_id)
    digest = snapshot.properties.get(SCHEMA_DIGEST_KEY)
    if digest is not None:
        table.schemas.check_named(snapshot.schema_id, digest, newest_id=table.schema.id)


def _check_state_not_lost(table: TableStore, snapshot: Snapshot, *, oldest: int) -> None:
    """Raise StateLostError when the oldest living snapshot is not the first, and older ones knew more."""
    if oldest > 1 and (table.has_log or table.file_io.exists(table.paths.state_mark)):
        if table.snapshots.latest_id() != snapshot.id:  # which has what this one lacks, or gets that error
            raise OutdatedSnapshotError(
                f"snapshot {snapshot.id} of {table.path} is of another engine, and the one before it that says what "
                "lakelog knew then has expired: name a newer snapshot"
            )
        raise StateLostError(
            f"table {table.path} has lost what lakelog knew of its writers: the snapshots before {oldest} had it, and "
            "another engine has expired them. A batch that is in the table already could not be distinguished from a "
            f"new one. Restore a snapshot file before {oldest} and what it names from a copy; or find out which batch "
            "of each stream was the last, run `lakelog table new-identity PATH`, which goes on from the files as they "
            "are, and start the streams with new checkpoint locations"
        )
