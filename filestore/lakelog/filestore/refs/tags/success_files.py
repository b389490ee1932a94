"""Files that say that a tag exists: `tag/tag-success-file/<tag>_SUCCESS`, for schedulers that wait for a file.

They need `tag.create-success-file`. A file holds {"creationTime": milliseconds, "modificationTime": milliseconds}; the
second is the time of the last replacement. The file is written after the tag, and deleted before it. If a process is
killed between the two, the next process that creates automatic tags writes the missing file. Source: Paimon,
`SuccessFileTagCallback`.
"""

from __future__ import annotations

import json

from lakelog.common.clock import system_millis
from lakelog.common.errors import NotFoundError
from lakelog.common.json_fields import COUNT, parse_object, whole
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.tagging import TAG_CREATE_SUCCESS_FILE

_CREATED, _MODIFIED = "creationTime", "modificationTime"
_OWN_PREFIX = "lakelog-"  # tags that protect files, of which no user knows


def write_success_file(table: TableStore, name: str, *, now_millis: int | None = None) -> None:
    """Write the file of a tag that was created or replaced, if the table wants such files."""
    if not TAG_CREATE_SUCCESS_FILE.of(table.schema.options) or name.startswith(_OWN_PREFIX):
        return
    now = system_millis() if now_millis is None else now_millis
    path = table.paths.tag_success(name)
    fields = {_CREATED: _created(table, path, now), _MODIFIED: now}
    table.file_io.write_bytes(path, json.dumps(fields).encode())


def complete_success_file(table: TableStore, name: str) -> None:
    """Write the file of an existing tag, if it has none."""
    if TAG_CREATE_SUCCESS_FILE.of(table.schema.options) and not table.file_io.exists(table.paths.tag_success(name)):
        write_success_file(table, name)


def delete_success_file(table: TableStore, name: str) -> None:
    """Delete the file of a tag that is about to be deleted."""
    if TAG_CREATE_SUCCESS_FILE.of(table.schema.options):
        table.file_io.delete(table.paths.tag_success(name))


def _created(table: TableStore, path: str, now_millis: int) -> int:
    """The time in the file that is replaced; now if there is no readable file."""
    try:
        return whole(parse_object(table.file_io.read_bytes(path)), _CREATED, COUNT)
    except (KeyError, NotFoundError, ValueError):
        return now_millis
