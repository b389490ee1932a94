"""Checks that the table in a folder is the one that was opened, and that lakelog's state was not lost.

Every snapshot of lakelog names the table's uuid (property `lakelog.table-uuid`), so that a writer whose table was
dropped and created again under the same name notices it by the snapshot that it reads anyway. Tables of other engines
have no uuid: there the time in the schema's file is compared. For lakelog's state see
`filestore.metadata.tables.state_keeping`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import SCHEMA_DIGEST_KEY, Snapshot
from lakelog.filestore.metadata.snapshots.users import CarriedProperties, PropertyKey, carried_properties
from lakelog.filestore.metadata.tables.forks import fork_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.schema.line_names import line_name
from lakelog.filestore.schema.paths import BRANCH_INFIX, MAIN_BRANCH
from lakelog.filestore.schema.schema_manager import SchemaManager

MADE_PREFIX = "made-"


class StateLostError(CorruptDataError):
    """Lakelog's state of the writers of a table was in snapshots that another engine has expired."""


class OutdatedSnapshotError(NotFoundError):
    """A snapshot is no longer the newest, and the snapshot that held lakelog's state for it has expired: read again."""


def carried_by(table: TableStore, snapshot: Snapshot | None) -> CarriedProperties:
    """The state of lakelog as of a snapshot, for commits after it and readers of its log.

    Raises ConflictError if the folder holds another table than the one that was opened. If the snapshots with the state
    have expired, raises StateLostError for the newest snapshot and OutdatedSnapshotError for an older one.
    """
    carried = carried_anyhow(table, snapshot)
    if not carried.properties and snapshot is not None:
        _check_state_not_lost(table, snapshot, oldest=carried.foreign[-1].id)
    return carried


def carried_anyhow(table: TableStore, snapshot: Snapshot | None) -> CarriedProperties:
    """As `carried_by`, but empty if the snapshots with the state have expired."""
    carried = carried_properties(snapshot, table.snapshots)
    check_same_table(table, carried.properties.get(PropertyKey.UUID))
    return carried


def check_same_table(table: TableStore, found: str | None) -> None:
    """Raise ConflictError when the folder holds another table than the one that was opened.

    `found` is the uuid that a snapshot names: if it is the table's own, no file is read.
    """
    if not (found and found == table.uuid) and not is_same_table(table):
        if table.branch != MAIN_BRANCH and is_same_table(replace(table, branch=MAIN_BRANCH)):
            raise ConflictError(
                f"branch {table.branch!r} of table {table.path} was deleted, or replaced the table, since it was "
                "opened: nothing is written or read by this handle. Open the table, or a branch that it has"
            )
        raise ConflictError(
            f"table {table.path} was dropped, renamed, or created again, since it was opened: nothing is written or "
            "read by this handle. Open the table again, a renamed one by its new name; a stream continues in a renamed "
            "table, for a table created again it needs a new checkpoint location"
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


def identity_of(table: TableStore) -> str:
    """What distinguishes a table from another one of its name: its uuid, else its creation time.

    This is the time in its first schema, which is then read. A branch has an identity of its own: two branches with one
    name that were created one after the other have different ones, unless another engine created them.
    """
    fork = fork_of(table.file_io, table.paths, table_name=table.name) if table.branch != MAIN_BRANCH else None
    if fork is not None:
        return f"{BRANCH_INFIX}{fork.branch_id}"
    of_table = _identity_of_table(table)
    return line_name(of_table, table.branch)


def _identity_of_table(table: TableStore) -> str:
    if table.uuid:
        return table.uuid
    return f"{MADE_PREFIX}{table.schemas.get(min(table.schemas.list_ids())).time_millis}"


def former_identities(table: TableStore) -> frozenset[str]:
    """The identities that a table had before: of another engine, and before each new one. Reads its schemas.

    A branch has none: its schemas begin with those of the table.
    """
    if table.branch != MAIN_BRANCH:
        return frozenset()
    schemas = [table.schemas.get(schema_id) for schema_id in sorted(table.schemas.list_ids())]
    had = {TABLE_UUID.of(schema.options) for schema in schemas}
    made = {f"{MADE_PREFIX}{schema.time_millis}" for schema in schemas[:1] if not TABLE_UUID.of(schema.options)}
    return frozenset((had | made) - {"", table.uuid})


def latest_of(table: TableStore) -> Snapshot | None:
    """The newest snapshot, read now, or the pinned one; None before the first commit.

    Raises ConflictError as `check_same_table`. Without the check a table that was renamed or dropped would look like an
    empty one.
    """
    if table.pinned is not None:
        return table.pinned
    latest = table.snapshots.latest()
    if latest is None:
        check_same_table(table, None)
    return latest


def check_got_no_log(table: TableStore, properties: Mapping[str, str]) -> None:
    """Raise ConflictError if a table has got a log since it was opened: what is written now would not be in the log.

    `properties` are lakelog's of the newest snapshot.
    """
    if properties.get(PropertyKey.LOG_STATE) and not table.has_log:
        raise ConflictError(
            f"table {table.path} has got a log since it was opened, and this reader or writer does not know of it: "
            "open the table again, or start the stream again, which continues with its checkpoint"
        )


def check_log_is_own(table: TableStore) -> None:
    """Raise InvalidRequestError for a branch that another engine created, and whose schema names the table's log.

    What is written there must not go into that log. A branch of lakelog has a log of its own, or none.
    """
    if table.has_foreign_log:
        raise InvalidRequestError(
            f"{table.name} was created by another engine from a line with a log, which does not belong to the branch: "
            "lakelog does not write to the branch or change it. Create a branch with lakelog, as with "
            f"`lakelog table branch create {table.path} NAME`"
        )


def check_is_of(table: TableStore, snapshot: Snapshot) -> None:
    """Raise ConflictError for a snapshot of another table, created under the same name since this one was opened.

    Snapshots without a uuid pass.
    """
    if snapshot.properties.get(PropertyKey.UUID, table.uuid) != table.uuid:
        check_same_table(table, None)


def check_schema(table: TableStore, snapshot: Snapshot | None) -> None:
    """Raise NotFoundError if the schema of a snapshot was lost; it may be newer than the table handle.

    Raises ConflictError if the snapshot is of another table, which was created under the same name since, and
    CorruptDataError if the schema is not the one that the snapshot names but another table's.
    """
    if snapshot is None:
        return
    check_is_of(table, snapshot)
    if snapshot.schema_id > table.schema.id:
        table.schemas.get(snapshot.schema_id)
        _check_schema_stayed(table)
    digest = snapshot.properties.get(SCHEMA_DIGEST_KEY)
    if digest is not None:
        table.schemas.check_named(snapshot.schema_id, digest, newest_id=table.schema.id)


def _check_schema_stayed(table: TableStore) -> None:
    """Raise ConflictError if a branch has replaced the table's line, and its schemas have replaced the opened one."""
    number = table.schema.id
    if number in table.schemas.list_ids() and table.schemas.read_now(number).time_millis != table.schema.time_millis:
        raise ConflictError(
            f"the columns of {table.path} were replaced by those of a branch since it was opened: open the table again"
        )


def _check_state_not_lost(table: TableStore, snapshot: Snapshot, *, oldest: int) -> None:
    """Raise StateLostError if the oldest living snapshot is not the first, and an expired one had the state."""
    if oldest > 1 and (table.has_log or table.file_io.exists(table.paths.state_mark)):
        if table.snapshots.latest_id() != snapshot.id:  # the newest may have the state, or gets the error below
            raise OutdatedSnapshotError(
                f"snapshot {snapshot.id} of {table.path} is of another engine, and the one before it with lakelog's "
                "state of that time has expired: name a newer snapshot"
            )
        raise StateLostError(
            f"table {table.path} has lost lakelog's state of its writers and merges: the snapshots before {oldest} had "
            "it, and another engine has expired them. A batch or a branch that is in the table already could not be "
            f"distinguished from a new one. Restore a snapshot file before {oldest} and the files that it names from a "
            "copy; or find out the last batch of each stream, run `lakelog table new-identity PATH`, which continues "
            "with the files as they are, start the streams with new checkpoint locations, and give the next merge of "
            "each branch its base="
        )
