"""The rows of a snapshot in a DuckDB that runs several queries of it.

DuckDB reads large files itself, see `own_files`; all other rows are brought into its memory once. It knows the
number and the bounds of all of them then, and its plans are as good as for plain files: rows that come through Arrow
anew for each query made queries of TPC-H two to four times slower.
"""

from __future__ import annotations

from typing import Any  # Any: duckdb is an optional extra without types here

import pyarrow as pa

from lakelog.common.quoting import quoted
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.duckdb.relation import own_files_of
from lakelog.filestore.read.planned_read import PlannedRead


class KeptRows:
    """A snapshot as a view of a DuckDB, with the tables that it needs; the files stay known as long as this exists.

    `row_count` and `size_bytes` are those of the files whose rows are brought into memory.
    """

    def __init__(self, table: TableStore, snapshot: Snapshot) -> None:
        """Plan the read. Raises as a read."""
        fields = table.schema.fields
        read = PlannedRead.of(table, snapshot, fields)
        self._own = own_files_of(lambda _, __: read, fields, table, snapshot)
        self._others = read if self._own is None else self._own.others(read)
        files = [file for split in self._others.splits for file in split.files]
        self.row_count = sum(file.row_count for file in files)
        self.size_bytes = sum(file.file_size_bytes for file in files)
        # DuckDB compares names without case.
        self.can_be_kept = len({field.name.casefold() for field in fields}) == len(fields) and not any(
            split.branch is not None for split in read.splits
        )

    def create(self, connection: Any, name: str) -> None:
        """Create the view and its tables, all or nothing. Raises what DuckDB and a read raise."""
        connection.execute("BEGIN")
        try:
            self._create(connection, name)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def drop(self, connection: Any, name: str) -> None:
        """Drop what `create` has made."""
        connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
        for kind in ("rows", "keys"):
            connection.execute(f"DROP TABLE IF EXISTS {_part(name, kind)}")

    def _create(self, connection: Any, name: str) -> None:
        parts: list[str] = []
        names = ", ".join(quoted(field.name) for field in self._others.fields)
        if self._own is None or not self._own.are_all:
            _store(connection, _part(name, "rows"), self._others.to_table())
            parts.append(f"SELECT {names} FROM {_part(name, 'rows')}")
        if self._own is not None:
            scans = self._own.scans(connection)
            parts += [] if scans.alone is None else [scans.alone]
            if scans.based is not None:
                young = _part(name, "rows")
                if self._own.has_young_deletes:  # a key that is deleted is in no row
                    young = _part(name, "keys")
                    keys = [field.name for field in self._own.key_fields]
                    _store(connection, young, self._own.young_keys(keys, None).to_table())
                kept = f"NOT EXISTS (SELECT 1 FROM {young} young WHERE {self._own.is_replaced})"
                parts.append(f"SELECT {names} FROM ({scans.based}) base WHERE {kept}")
        connection.execute(f"CREATE VIEW {quoted(name)} AS {' UNION ALL '.join(parts)}")


def _part(name: str, kind: str) -> str:
    return quoted(f"{name} {kind}")


def _store(connection: Any, name: str, rows: pa.Table) -> None:
    connection.register("arriving", rows)
    try:
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
    finally:
        connection.unregister("arriving")
