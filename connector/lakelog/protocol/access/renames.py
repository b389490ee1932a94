"""The renames of tables: by them, a copy that was made before a rename finds its original.

A copy names the folder of its original as its place. Once `rename_table` has renamed the original, that folder holds no
table of this uuid, just as after a move by hand. So the warehouse records the rename:
`<warehouse>/.lakelog/renamed/<table uuid>` is the JSON object {"places": [folder, ...]}, the newest last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.json_fields import parse_object, strings
from lakelog.common.quoting import cause
from lakelog.filestore.io import FileIO, bounded_io, warehouse_of

PLACES_MAX = 20  # of the renames of one table


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
