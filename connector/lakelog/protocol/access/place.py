"""The place of a table: a copied folder must not share the log or the lineage of its original.

A table records its folder in its first schema (`lakelog.place`), and with a log in every snapshot that a stream makes.
A writer of a table with a log in another folder checks whether the recorded folder, or one that the table was renamed
to since, still holds a table of the same uuid. If so, this is a copy; else the table was moved, and the next snapshot
records its new place. Lineage goes by the same record, see `lakelog.lineage.tables.found_tables`.

By the renames of tables, a copy that was made before a rename finds its original. A copy names the folder of its
original as its place. Once `rename_table` has renamed the original, that folder holds no table of this uuid, just as
after a move by hand. So the warehouse records the rename: `<warehouse>/.lakelog/renamed/<table uuid>` is the JSON
object {"places": [folder, ...]}, the newest last.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakelog.common.errors import CorruptDataError, InvalidRequestError, LakelogError, NotFoundError, UnavailableError
from lakelog.common.json_fields import parse_object, strings
from lakelog.common.quoting import cause
from lakelog.filestore.io import BoundedFileIO, FileIO, LocalFileIO, bounded_io, is_local, warehouse_of
from lakelog.filestore.metadata.snapshots import PropertyKey, carried_properties
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import TABLE_UUID
from lakelog.filestore.schema import SchemaManager, TablePaths

logger = logging.getLogger("lakelog.protocol")

PLACES_MAX = 20  # of the renames of one table


def recorded_place(table: TableStore) -> str | None:
    """The folder that the newest snapshot names, or the schema if there is no snapshot; None without a log."""
    if not table.has_log:
        return None
    carried = carried_properties(table.snapshots.latest(), table.snapshots).properties
    return carried.get(PropertyKey.PLACE) or table.schema.options.get(PropertyKey.PLACE)


def recorded_places(table: TableStore) -> Iterator[str]:
    """Where a table may live by what it and its warehouse record, as `spot_of`, the newest first: renames, then places.

    None for a table of another engine. Reads only as far as it is asked. Raises UnavailableError, CorruptDataError.
    """
    made_at = table.schema.options.get(PropertyKey.PLACE)
    if not made_at:
        return
    renames = read_renames(table.files_at(renames_folder(table.path)), table.path, table.uuid)
    yield from map(spot_of, reversed(renames))
    yield spot_of(recorded_place(table) or made_at)
    yield spot_of(made_at)


def spot_of(path: str) -> str:
    """The folder of a table within its warehouse, which itself may be mounted elsewhere: `db.db/t`."""
    return "/".join(path.rsplit("/", 2)[-2:])


def is_copy(table: TableStore) -> bool:
    """Whether a table is a copy; without a log, which is never refused, also a table that was moved by hand counts."""
    if table.has_log:
        return original_of(table, recorded_place(table)) is not None
    return next(recorded_places(table), spot_of(table.path)) != spot_of(table.path)


def record_place(table: TableStore) -> None:
    """Record the new place of a table with a log after a rename, by a snapshot without files.

    After an error, which is only logged, the next writer records it. Call it only for an original: a copy would take
    the log of its original.
    """
    if not table.has_log or recorded_place(table) in (None, table.path):
        return
    from lakelog.filestore.commit import CommitRequest, TableCommit  # noqa: PLC0415  # opening a table needs no commits

    request = CommitRequest(properties={PropertyKey.PLACE: table.path})
    try:
        if table.snapshots.latest() is None:
            placed = {**table.schema.options, PropertyKey.PLACE: table.path}
            table.schemas.create(replace(table.schema, id=table.schema.id + 1, options=placed))
        else:
            TableCommit(table).commit(lambda _latest: request)
    except LakelogError as error:
        logger.warning("table %s: its new place is recorded by the next writer: %s", table.path, error)


def original_of(table: TableStore, place: str | None) -> str | None:
    """The folder of the table that this one is a copy of; None for an original or a moved table.

    `place` is the folder that the table has recorded; no I/O if it is the table's own folder. Raises
    InvalidRequestError when the recorded folder cannot be read.
    """
    if place is None or place == table.path:
        return None
    _files_at(table, place)  # raises for a place in another file system
    try:
        found = next((at for at in _places_since(table, place) if at == table.path or _is_at(table, at)), None)
    except LakelogError as error:
        raise InvalidRequestError(
            f"table {table.path} was last written at {place}, and whether it still exists there cannot be checked: "
            f"{error}. {_WAY_OUT}"
        ) from error
    if found is None:
        logger.info("table %s was moved there from %s", table.path, place)
    if found is None or found == table.path or _is_same_folder(table, _files_at(table, found), found):
        return None
    return found


def _places_since(table: TableStore, place: str) -> Iterator[str]:
    """The folders where the table that was at `place` may be now: those that it was renamed to, the newest first."""
    renames = _files_at(table, renames_folder(place))
    yield from reversed(read_renames(renames, place, table.uuid))
    yield place


def _is_at(table: TableStore, place: str) -> bool:
    """Whether a folder holds a table of the same uuid."""
    try:
        schema = SchemaManager(_files_at(table, place), TablePaths(place, table.branch)).latest()
    except NotFoundError:
        return False
    return schema is not None and TABLE_UUID.of(schema.options) == table.uuid


def check_no_copy(table: TableStore, place: str | None) -> None:
    """Raise InvalidRequestError for a copy, which has no log of its own yet."""
    original = original_of(table, place)
    if original is not None:
        raise InvalidRequestError(
            f"table {table.path} is a copy of {original}, whose log it would share: both would lose data. {_WAY_OUT}. "
            "Its files can be read nevertheless"
        )


_WAY_OUT = (
    "`lakelog table new-identity PATH` gives the table an identity and a log of its own, from its files as they are"
)


def _files_at(table: TableStore, place: str) -> FileIO:
    """The FileIO for only the recorded folder."""
    if is_local(place) and place.startswith("/") and "\0" not in place:
        return bounded_io(LocalFileIO(), place, ())
    own, own_root = table.file_io, table.path
    scheme, _, rest = place.partition("://")
    if own_root.startswith(f"{scheme}://{rest.partition('/')[0]}/"):
        return bounded_io(own.inner if isinstance(own, BoundedFileIO) else own, place, ())
    raise InvalidRequestError(
        f"table {table.path} was last written at {place}, in another file system, so whether it still exists there is "
        f"not checked. {_WAY_OUT}"
    )


def _is_same_folder(table: TableStore, there: FileIO, place: str) -> bool:
    """Whether two paths are the same folder, by links or mounts: a file written to one is found in the other."""
    name = f"lakelog/probe-{uuid.uuid4()}.tmp"
    own = f"{table.path}/{name}"
    try:
        table.file_io.create_new(own, b"")
        try:
            return there.exists(f"{place}/{name}")
        finally:
            table.file_io.delete(own)
    except UnavailableError as error:
        logger.info("table %s: %s, so it is taken for a copy of %s", table.path, error, place)
        return False


def renames_folder(place: str) -> str:
    """The folder in a table's warehouse that records renames."""
    return f"{warehouse_of(place).rstrip('/')}/.lakelog/renamed"


def record_rename(file_io: FileIO, source: str, target: str, table_uuid: str) -> None:
    """Record the rename of a table before it is done. If it then fails, a check of `target` shows that.

    Raises UnavailableError, and CorruptDataError for a record that is not readable.
    """
    folder = renames_folder(source)
    files = _warehouse_files(file_io, source)
    older = [place for place in read_renames(files, source, table_uuid) if place != target]
    files.make_dirs(folder)
    data = json.dumps({"places": [*older, target][-PLACES_MAX:]}).encode()
    files.write_bytes(f"{folder}/{table_uuid}", data)


def forget_renames(file_io: FileIO, place: str, table_uuid: str) -> None:
    """Delete the record of a dropped table; a missing record is fine. Raises UnavailableError."""
    folder = renames_folder(place)
    _warehouse_files(file_io, place).delete(f"{folder}/{table_uuid}")


def _warehouse_files(file_io: FileIO, place: str) -> FileIO:
    """Only the files of the warehouse: a link in `.lakelog` that leads out of it is not followed."""
    return bounded_io(file_io, warehouse_of(place).rstrip("/"), ())


def read_renames(files: FileIO, place: str, table_uuid: str) -> Sequence[str]:
    """The folders that a table was renamed to, the newest last; none for a table that was not renamed.

    `files` must reach the folder of renames in the warehouse of `place`. Raises UnavailableError, CorruptDataError.
    """
    path = f"{renames_folder(place)}/{table_uuid}"
    try:
        return strings(parse_object(files.read_bytes(path)), "places")
    except NotFoundError:
        return ()
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} is not readable: {cause(error)}; it says what a table was renamed to, by which its "
            "copies are known. Give every copy an identity of its own, and delete the file"
        ) from error
