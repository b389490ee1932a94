"""Finds and creates the schema files of a table, reads them once, and checks them by the digests in other files."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from lakelog.common.errors import ConflictError, CorruptDataError, LakelogError, NotFoundError
from lakelog.common.file_names import numbers_of
from lakelog.common.quoting import listed, shown
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.io.network import both, calls_at_once
from lakelog.filestore.schema.paths import SCHEMA_PREFIX, TablePaths
from lakelog.filestore.schema.schema import DIGEST_KEY, TableSchema, parse_schema_file
from lakelog.filestore.schema.stored_schema import shown_schema, stored_schema

_NEWEST: dict[str, int] = {}  # by the folder of a table or branch: the newest schema that this process has found
_NEWEST_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _SchemaFile:
    """The contents of a schema file: the schema as users see it, its digest, and that of the schema before."""

    schema: TableSchema
    digest: str
    base: str | None


class SchemaManager:
    """The schemas of one table, as users see them. Caches the schemas it has read: their files never change.

    A schema file that was replaced by another table's is detected by its digest: that of the newest is in the snapshots
    of lakelog (`check_named`), that of an older one in the schema that lakelog created after it.
    """

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths
        self._read: dict[int, _SchemaFile] = {}

    def __getstate__(self) -> tuple[FileIO, TablePaths]:
        return self._file_io, self._paths

    def __setstate__(self, state: tuple[FileIO, TablePaths]) -> None:
        self._file_io, self._paths = state
        self._read = {}

    def latest(self) -> TableSchema | None:
        """The newest schema, read now; None without a table. Lists the folder.

        In a store behind a network the schema that was the newest for this process, or the first, is read beside it.
        """
        root = self._paths.own_root
        if calls_at_once(self._file_io) > 1:
            ids, _ = both(self._file_io, self.list_ids, lambda: self._read_ahead(_NEWEST.get(root, 0)))
        else:
            ids = self.list_ids()
        newest = max(ids, default=None)
        if newest is None:
            return None
        if len(_NEWEST) >= _NEWEST_MAX:
            _NEWEST.clear()
        _NEWEST[root] = newest
        return self.get(newest)

    def _read_ahead(self, schema_id: int) -> None:
        """Cache a schema, if it can be read: `get` raises the errors of the one that is wanted."""
        with contextlib.suppress(LakelogError):
            self._file(schema_id)

    def get(self, schema_id: int) -> TableSchema:
        """The schema of an id. Raises NotFoundError, naming the ids that exist."""
        return self._file(schema_id).schema

    def read_now(self, schema_id: int) -> TableSchema:
        """The schema of an id as its file is now. Raises NotFoundError."""
        return SchemaManager(self._file_io, self._paths).get(schema_id)

    def get_beside(self, schema_id: int, newest: TableSchema) -> TableSchema:
        """The schema of an id, for a table that was opened with `newest`. Raises NotFoundError.

        Raises CorruptDataError for an older schema whose digest is not the one in the schema after it.
        """
        if schema_id == newest.id:
            return newest
        if schema_id < newest.id:
            self._check_base(schema_id + 1)
        return self.get(schema_id)

    def digest_of(self, schema_id: int) -> str:
        """The digest of the schema's file, even if another engine wrote it. Raises NotFoundError."""
        return self._file(schema_id).digest

    def check_named(self, schema_id: int, digest: str, *, newest_id: int) -> None:
        """Raise CorruptDataError if a schema is not the one that a snapshot names by `digest`.

        Also if a schema from it up to `newest_id` was not made from the one before it.
        """
        found = self._file(schema_id).digest
        if found != digest:
            raise self._swapped(schema_id, f"it has the digest {found}, and a snapshot names {shown(digest)}")
        for number in range(schema_id + 1, newest_id + 1):
            self._check_base(number)

    def list_ids(self) -> list[int]:
        """All ids, in ascending order. Lists the folder."""
        names = self._file_io.list_names(self._paths.schema_dir)
        return numbers_of(names, SCHEMA_PREFIX)

    def create(self, schema: TableSchema) -> None:
        """Create the schema's file, with the first the table's folder. Raises ConflictError for a taken id."""
        path = self._paths.schema(schema.id)
        if schema.id == 0:
            self._file_io.make_dirs(self._paths.root)
        try:
            base = None if schema.id == 0 else self.digest_of(schema.id - 1)
        except NotFoundError:
            base = None
        text = stored_schema(schema).to_json(base=base)
        if not self._file_io.create_new(path, text.encode()):
            raise ConflictError(f"{path} exists already: another table or schema change was first; read it and decide")
        self._read[schema.id] = _SchemaFile(schema, json.loads(text)[DIGEST_KEY], base)

    def _file(self, schema_id: int) -> _SchemaFile:
        if schema_id not in self._read:
            path = self._paths.schema(schema_id)
            try:
                data = self._file_io.read_bytes(path)
            except NotFoundError as error:
                ids = self.list_ids()
                raise NotFoundError(
                    f"schema {schema_id} of {self._paths.root} does not exist; found [{listed(ids)}]: its file "
                    f"{path} was lost, restore it from a copy"
                ) from error
            schema, digest, base = parse_schema_file(data, path=path)
            if schema.id != schema_id:
                raise damaged(path, f"it holds the schema {schema.id}, expected {schema_id}")
            self._read[schema_id] = _SchemaFile(shown_schema(schema, path=path), digest, base)
        return self._read[schema_id]

    def _check_base(self, schema_id: int) -> None:
        """Raise CorruptDataError if a schema was not made from the one before it."""
        base = self._file(schema_id).base
        found = base if base is None else self._file(schema_id - 1).digest
        if found != base:
            raise self._swapped(
                schema_id - 1,
                f"it has the digest {found}, and schema {schema_id} was made from {shown(base)}",
            )

    def _swapped(self, schema_id: int, what: str) -> CorruptDataError:
        return damaged(
            self._paths.schema(schema_id), f"it is not the schema of this table that was written there: {what}"
        )
