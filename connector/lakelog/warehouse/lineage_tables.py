"""The stored system tables of a warehouse: of catalog options, of lineage and of its jobs.

They are primary key tables in the database `lakelog_sys`, since Paimon reserves `sys`, and are shown under `sys`. They
are created when lineage is first fed; before, they are shown without rows. The first columns and the keys are those of
the proposal "Table and snapshot lineage" (PIP of Paimon); the other columns follow.
Two views have the names and columns of Paimon 0.6 to 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import DataField, parse_type

_TEXT = "STRING"
_KEY = "STRING NOT NULL"
_NUMBER = "BIGINT"
_TIME = "TIMESTAMP_LTZ(3)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTable:
    """A stored system table: its name, its columns, and how many of the first columns are its key.

    `uuid_column` has the uuid of the table whose lineage the row describes, `options` are the options of the stored
    table.
    """

    name: str
    columns: Mapping[str, str]
    key_size: int
    uuid_column: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns."""
        return columns_of(self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return tuple(self.columns)[: self.key_size]


def columns_of(types: Mapping[str, str]) -> tuple[DataField, ...]:
    """Columns by their types."""
    return tuple(DataField(id=at, name=name, type=parse_type(text)) for at, (name, text) in enumerate(types.items()))


_JOB_TABLE = {"job": _KEY, "database": _KEY, "table": _KEY}
_JOB_LINEAGE = {**_JOB_TABLE, "create_time": _TIME, "table_uuid": _TEXT, "query_id": _TEXT}
_OF_BATCH = {"job": _KEY, "barrier_id": "BIGINT NOT NULL", "database": _KEY, "table": _KEY, "snapshot_id": _NUMBER}
# Of two rows with one key, for example after another query reused a name, the row of the later commit counts, in
# whatever order they are written.
_LATER_COUNTS = {"sequence.field": "commit_time"}
_VERSION = {"commit": _TEXT, "table_uuid": _TEXT, "branch": _TEXT, "query_id": _TEXT, "run_id": _TEXT}
CATALOG_OPTIONS = StoredTable(name="catalog_options", columns={"key": _KEY, "value": _TEXT}, key_size=1)
SOURCE_JOBS = StoredTable(name="source_job_lineage", columns=_JOB_LINEAGE, key_size=3, uuid_column="table_uuid")
SINK_JOBS = StoredTable(name="sink_job_lineage", columns=_JOB_LINEAGE, key_size=3, uuid_column="table_uuid")
SOURCE_SNAPSHOTS = StoredTable(
    name="source_snapshot_lineage",
    columns={
        **_OF_BATCH,
        **_VERSION,
        "mode": _TEXT,
        "start_snapshot_id": _NUMBER,
        "start_commit": _TEXT,
        "exact": "BOOLEAN",
        "why": _TEXT,
        "commit_time": _TIME,
    },
    key_size=4,
    uuid_column="table_uuid",
    options=_LATER_COUNTS,
)
SINK_SNAPSHOTS = StoredTable(
    name="sink_snapshot_lineage",
    columns={
        **_OF_BATCH,
        **_VERSION,
        "operation": _TEXT,
        "commit_user": _TEXT,
        "commit_identifier": _NUMBER,
        "commit_time": _TIME,
    },
    key_size=4,
    uuid_column="table_uuid",
    options=_LATER_COUNTS,
)
JOB_STARTUP = StoredTable(
    name="job_startup",
    columns={**_JOB_TABLE, "snapshot_id": _NUMBER, "commit": _TEXT, "table_uuid": _TEXT, "branch": _TEXT},
    key_size=3,
    uuid_column="table_uuid",
)
# lakelog's own table: each source of each whole batch, as `lakelog.lineage.tables.edges` reads them from snapshots.
# `sink_line` is the branch, `main` for the main line; `source_number` the source's place in its batch.
SNAPSHOT_EDGES = StoredTable(
    name="snapshot_edges",
    columns={
        "sink_uuid": _KEY,
        "sink_line": _KEY,
        "sink_snapshot": "BIGINT NOT NULL",
        "sink_commit": _KEY,
        "user": _KEY,
        "identifier": "BIGINT NOT NULL",
        "source_number": "INT NOT NULL",
        "job": _TEXT,
        "query_id": _TEXT,
        "run_id": _TEXT,
        "operation": _TEXT,
        "sink_table": _TEXT,
        "sink_time": _TIME,
        "barrier_id": _NUMBER,
        "source_kind": _TEXT,
        "source_uuid": _TEXT,
        "source_table": _TEXT,
        "source_branch": _TEXT,
        "mode": _TEXT,
        "source_from": _NUMBER,
        "source_from_commit": _TEXT,
        "source_to": _NUMBER,
        "source_to_commit": _TEXT,
        "exact": "BOOLEAN",
        "why": _TEXT,
        "source_path": _TEXT,
        "source_log": _TEXT,
        "foreign_from": _TEXT,
        "foreign_to": _TEXT,
    },
    key_size=7,
    uuid_column="sink_uuid",
)
# Jobs that were ended or deleted, each up to the commit time in the column.
JOB_STATUS = StoredTable(
    name="job_status", columns={"job": _KEY, "ended_time": _TIME, "deleted_time": _TIME}, key_size=1
)
# Tables whose drop began; `done` once they and their lineage are deleted.
DROPPED_TABLES = StoredTable(
    name="dropped_tables",
    columns={"table_uuid": _KEY, "database": _TEXT, "table": _TEXT, "done": "BOOLEAN"},
    key_size=1,
)
# The names under which the other tables have the tables of this warehouse.
TABLE_NAMES = StoredTable(
    name="table_names", columns={"table_uuid": _KEY, "name": _TEXT}, key_size=1, uuid_column="table_uuid"
)
# The documents of the lineage of fields, each once: see `lakelog.lineage.columns.field_documents`.
LINEAGE_OPERATIONS = StoredTable(
    name="lineage_operations",
    columns={"checksum": _KEY, "operations": _TEXT, "approximate": "BOOLEAN", "document": _TEXT},
    key_size=1,
)
_FLAG = "BOOLEAN NOT NULL"
# The edges of a document for each table that was written with it. `sink_field` is empty for an edge that counts for
# all fields. The base of a source is what stands below the name in the query: the table of a branch or system table.
FIELD_EDGES = StoredTable(
    name="field_edges",
    columns={
        "checksum": _KEY,
        "source_namespace": _KEY,
        "source_dataset": _KEY,
        "source_field": _KEY,
        "sink_namespace": _KEY,
        "sink_dataset": _KEY,
        "sink_field": _KEY,
        "subtype": _KEY,
        "masked": _FLAG,
        "type": _TEXT,
        "operation": _TEXT,
        "approximate": "BOOLEAN",
        "opaque": "BOOLEAN",
        "base_namespace": _TEXT,
        "base_dataset": _TEXT,
        "base_field": _TEXT,
        "source_uuid": _TEXT,
        "sink_uuid": _TEXT,
    },
    key_size=9,
    uuid_column="sink_uuid",
)
# The runs of jobs: from which batch to which one document made a table.
LINEAGE_RUNS = StoredTable(
    name="lineage_runs",
    columns={
        "table_uuid": _KEY,
        "line": _KEY,
        "job": _KEY,
        "run_id": _KEY,
        "checksum": _KEY,
        "database": _TEXT,
        "table": _TEXT,
        "query_id": _TEXT,
        "operation": _TEXT,
        "first_batch": _NUMBER,
        "last_batch": _NUMBER,
        "first_time": _TIME,
        "last_time": _TIME,
        "first_snapshot": _NUMBER,
        "last_snapshot": _NUMBER,
        "foreign": "BOOLEAN",
    },
    key_size=5,
    uuid_column="table_uuid",
)
DATASET_FIELDS = StoredTable(
    name="dataset_fields",
    columns={
        "database": _KEY,
        "table": _KEY,
        "field": _KEY,
        "type": _TEXT,
        "field_id": _NUMBER,
        "creation_time": _TIME,
        "last_update_time": _TIME,
        "last_modified_run": _TEXT,
        "table_uuid": _TEXT,
    },
    key_size=3,
    uuid_column="table_uuid",
)
DATASET_PROPERTIES = StoredTable(
    name="dataset_properties",
    columns={"database": _KEY, "table": _KEY, "run_id": _KEY, "properties": _TEXT, "table_uuid": _TEXT},
    key_size=3,
    uuid_column="table_uuid",
)
OF_FIELDS = (LINEAGE_OPERATIONS, FIELD_EDGES, LINEAGE_RUNS, DATASET_FIELDS, DATASET_PROPERTIES)
STORED_TABLES = {
    table.name: table
    for table in (
        CATALOG_OPTIONS,
        SOURCE_JOBS,
        SINK_JOBS,
        SOURCE_SNAPSHOTS,
        SINK_SNAPSHOTS,
        JOB_STARTUP,
        SNAPSHOT_EDGES,
        JOB_STATUS,
        DROPPED_TABLES,
        TABLE_NAMES,
        *OF_FIELDS,
    )
}
# Source: Paimon 0.9, `TableLineageTable`.
VIEW_COLUMNS = {"database_name": _TEXT, "table_name": _TEXT, "job_name": _TEXT, "create_time": "TIMESTAMP(6)"}
VIEWS = {"source_table_lineage": SOURCE_JOBS, "sink_table_lineage": SINK_JOBS}
_VIEWED = {"database_name": "database", "table_name": "table", "job_name": "job", "create_time": "create_time"}


def view_columns_behind(columns: Sequence[str]) -> list[str]:
    """The columns of the underlying table that columns of a view show."""
    return [_VIEWED[name] for name in columns]


def view_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of a view, from the rows of its underlying table."""
    found = {name: rows[_VIEWED[name]] for name in columns}
    if "create_time" in found:
        found["create_time"] = pc.local_timestamp(found["create_time"]).cast(pa.timestamp("us"))
    return pa.table(found)
