"""The stored system tables of a warehouse, opened, read and changed; and the catalog options that switch lineage.

A change of a table is one commit: upserts, and deletes of rows by their keys. The tables are plain tables of the file
store: what is written to them has no lineage.

Jobs that were ended or deleted are recorded with their last commit: what a job commits afterwards counts again.

The lineage of a dropped table is deleted in steps: the drop is recorded in `dropped_tables`, the table is deleted, then
its lineage rows, then that is recorded too. The next feed finishes what was cut off; a recorded table that still exists
is not a dropped one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any  # Any: the values of a row

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError
from lakelog.common.types import RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.io import DATABASE_SUFFIX, FileIO
from lakelog.filestore.schema import SchemaManager, TablePaths, build_schema
from lakelog.warehouse.lineage_options import DATA_LINEAGE, TABLE_LINEAGE
from lakelog.warehouse.lineage_tables import (
    CATALOG_OPTIONS,
    DROPPED_TABLES,
    JOB_STATUS,
    STORED_TABLES,
    StoredTable,
)
from lakelog.warehouse.system_names import STORED_DATABASE

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import TableStore
    from lakelog.warehouse.warehouse import Warehouse

Row = Mapping[str, Any]
_OPTIONS = {"bucket": "1", "snapshot.num-retained.max": "50"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What is recorded: the tables of jobs, and the snapshots of batches."""

    table: bool
    data: bool

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self.table or self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The last commits before a job was ended and deleted, in milliseconds since 1970; None if it was not."""

    ended_millis: int | None = None
    deleted_millis: int | None = None

    def covers_ended(self, commit_millis: int) -> bool:
        """Whether a commit was before the end or the deletion of the job."""
        is_ended = self.ended_millis is not None and commit_millis <= self.ended_millis
        return is_ended or self.covers_deleted(commit_millis)

    def covers_deleted(self, commit_millis: int) -> bool:
        """Whether a commit was before the deletion of the job."""
        return self.deleted_millis is not None and commit_millis <= self.deleted_millis


@dataclass(frozen=True, kw_only=True)
class SystemDatabase:
    """The stored system tables of one warehouse. `given` are the catalog's options that switch lineage."""

    warehouse: str
    file_io: FileIO
    given: Mapping[str, str] = field(default_factory=dict)
    _opened: dict[str, FileStoreTable] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, catalog: Warehouse) -> SystemDatabase:
        """The stored system tables of a catalog's warehouse."""
        return cls(warehouse=catalog.warehouse, file_io=catalog._file_io, given=catalog.lineage_options)

    @classmethod
    def beside(cls, table: TableStore, warehouse: str) -> SystemDatabase:
        """Those of the warehouse of a table, reached like the table, with what its catalog switches on."""
        return cls(warehouse=warehouse, file_io=table.files_at(warehouse), given=table.lineage_options)

    def options(self) -> dict[str, str]:
        """The options in `catalog_options`, overridden by the given ones."""
        return {**self._stored_options(), **self.given}

    def _stored_options(self) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self.found(CATALOG_OPTIONS) if row["value"] is not None}

    def switches(self) -> Switches:
        """What is recorded. Raises OptionError for a stored value that is not a boolean."""
        options = self.options()
        return Switches(table=TABLE_LINEAGE.of(options), data=DATA_LINEAGE.of(options))

    def store_options(self) -> None:
        """Write the given options that switch lineage into `catalog_options`, unless they are already there."""
        stored = self._stored_options()
        new = [{"key": key, "value": value} for key, value in sorted(self.given.items()) if stored.get(key) != value]
        self.change(CATALOG_OPTIONS, upserts=new)

    def rows(self, table: StoredTable, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a table; none if it was not created."""
        found = self.find(table)
        names = list(table.columns) if columns is None else list(columns)
        if found is None:
            fields = [one for one in table.fields if one.name in names]
            return to_arrow_schema(fields).empty_table().select(names)
        return found.to_arrow(columns=names)

    def find(self, table: StoredTable) -> FileStoreTable | None:
        """A table; None if it was not created."""
        if table.name not in self._opened:
            path = self._path(table)
            if not SchemaManager(self.file_io, TablePaths(path)).list_ids():
                return None
            self._opened[table.name] = FileStoreTable.open(path, self.file_io)
        return self._opened[table.name]

    def opened(self, table: StoredTable) -> FileStoreTable:
        """A table, which is created if it is missing."""
        found = self.find(table)
        if found is not None:
            return found
        schema = build_schema(
            table.fields, primary_keys=table.keys, options={**_OPTIONS, **table.options}, time_millis=system_millis()
        )
        path = self._path(table)
        try:
            self._opened[table.name] = FileStoreTable.create(path, schema, self.file_io)
        except ConflictError:  # another process has created it meanwhile
            self._opened[table.name] = FileStoreTable.open(path, self.file_io)
        return self._opened[table.name]

    def _path(self, table: StoredTable) -> str:
        return f"{self.warehouse.rstrip('/')}/{STORED_DATABASE}{DATABASE_SUFFIX}/{table.name}"

    def change(self, table: StoredTable, *, upserts: Sequence[Row] = (), deletes: Sequence[Row] = ()) -> None:
        """Delete rows, then upsert rows, in one commit; no rows, no commit. Rows have all columns that are not null."""
        if not upserts and not deletes:
            return
        opened = self.opened(table)
        schema = to_arrow_schema(opened.schema.select(list(table.columns)))
        rows = pa.Table.from_pylist([*deletes, *upserts], schema=schema)
        kinds = [int(RowKind.DELETE)] * len(deletes) + [int(RowKind.INSERT)] * len(upserts)
        opened.write(rows, kinds=pa.array(kinds, pa.int8()))

    def found(self, table: StoredTable, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows of a table as dicts; times are milliseconds since 1970."""
        rows: list[dict[str, Any]] = plain_times(self.rows(table, columns)).to_pylist()
        return rows

    def is_made(self) -> bool:
        """Whether any of the tables was created."""
        return self.find(CATALOG_OPTIONS) is not None

    def note_drop(self, uuid: str, database: str, table: str) -> bool:
        """Record that the drop of a table begins; returns False if there is no lineage that it could have."""
        if database == STORED_DATABASE or not uuid or not self.is_made():
            return False
        row = {"table_uuid": uuid, "database": database, "table": table, "done": False}
        self.change(DROPPED_TABLES, upserts=[row])
        return True

    def dropped(self, *, is_done: bool = False) -> set[str]:
        """The uuids of tables whose drop began; with `is_done`, only tables of which nothing is left."""
        rows = self.found(DROPPED_TABLES, ["table_uuid", "done"])
        return {str(row["table_uuid"]) for row in rows if row["done"] or not is_done}

    def unfinished_drops(self) -> set[tuple[str, str]]:
        """The databases and names of the tables whose drop began and is not done."""
        return {(str(row["database"]), str(row["table"])) for row in self.found(DROPPED_TABLES) if not row["done"]}

    def job_statuses(self) -> dict[str, JobStatus]:
        """The jobs that were ended or deleted."""
        return {
            row["job"]: JobStatus(ended_millis=row["ended_time"], deleted_millis=row["deleted_time"])
            for row in self.found(JOB_STATUS)
        }

    def put_status(self, job: str, status: JobStatus) -> None:
        """Record that a job was ended or deleted."""
        row = {"job": job, "ended_time": status.ended_millis, "deleted_time": status.deleted_millis}
        self.change(JOB_STATUS, upserts=[row])

    def forget_dropped(self, living: Collection[str]) -> set[tuple[str, str]]:
        """Delete the lineage of tables whose drop began, except living ones, unless that is done already.

        The sources of a living table stay among its edges. Returns the databases and names of the other tables.
        """
        rows = [one for one in self.found(DROPPED_TABLES) if not one["done"] and one["table_uuid"] not in living]
        if not rows:
            return set()
        uuids = [str(row["table_uuid"]) for row in rows]
        for table in STORED_TABLES.values():
            if table.uuid_column is not None:
                self.delete_where(table, table.uuid_column, uuids)
        self.change(DROPPED_TABLES, upserts=[{**row, "done": True} for row in rows])
        return {(str(row["database"]), str(row["table"])) for row in rows}

    def delete_where(self, table: StoredTable, column: str, values: Collection[str]) -> int:
        """Delete the rows whose column has one of these values; returns their number."""
        rows = self.rows(table)
        found = rows.filter(pc.is_in(rows[column], pa.array(sorted(values), pa.string())))
        self.change(table, deletes=plain_times(found).to_pylist())
        return int(found.num_rows)


def plain_times(rows: pa.Table) -> pa.Table:
    """Rows with milliseconds since 1970 in place of timestamps."""
    fields = [pa.field(one.name, pa.int64()) if pa.types.is_timestamp(one.type) else one for one in rows.schema]
    return rows.cast(pa.schema(fields))
