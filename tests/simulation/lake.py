"""The folders of tables, as far as the look for a copy reads them: a schema each, with the table's uuid."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import cast

import pyarrow as pa

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths
from lakelog.protocol.access.place import check_no_copy, original_of

_COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@cache
def _schema_of(table_uuid: str) -> bytes:
    options = {"bucket": "1", TABLE_UUID.key: table_uuid}
    return build_schema(_COLUMNS, primary_keys=["id"], options=options).to_json().encode()


@dataclass(slots=True)
class Lake:
    """Files by path, for the calls that the look for a copy makes."""

    files: dict[str, bytes] = field(default_factory=dict)

    def read_bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise NotFoundError(path)
        return self.files[path]

    def create_new(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data

    def exists(self, path: str) -> bool:
        return path in self.files

    def list_names(self, directory: str) -> list[str]:
        return [path.removeprefix(f"{directory}/") for path in self.files if path.startswith(f"{directory}/")]

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def put_table(self, path: str, table_uuid: str) -> None:
        """Put the schema of a table at a place, or another one in its place."""
        self.files[TablePaths(path).schema(0)] = _schema_of(table_uuid)

    def remove_table(self, path: str) -> None:
        """Delete what is at a place."""
        self.files = {at: data for at, data in self.files.items() if not at.startswith(f"{path}/")}


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A table where it is now, as the look for a copy sees it."""

    path: str
    uuid: str
    file_io: Lake
    branch: str = MAIN_BRANCH

    def check_no_copy(self, place: str | None) -> None:
        """Raise InvalidRequestError when this is a copy of the table at `place`."""
        check_no_copy(self._as_store(), place)

    def is_copy(self, place: str | None) -> bool:
        """Whether this is a copy of the table at `place`."""
        return original_of(self._as_store(), place) is not None

    def _as_store(self) -> TableStore:
        return cast("TableStore", self)  # as much of it as is asked for
