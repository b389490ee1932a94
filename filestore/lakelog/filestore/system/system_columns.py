"""The columns of the system tables: those of Paimon 2.0, then those that the proposals of tags and branches add.

Timestamps without a zone are in UTC. Source: Paimon, the classes of `org.apache.paimon.table.system`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.types import DataField, array_of, parse_type, row_of

_STRING = "STRING NOT NULL"
_COUNT = "BIGINT NOT NULL"
_TIME = "TIMESTAMP(3)"


def _columns(**types: str) -> tuple[DataField, ...]:
    return tuple(DataField(id=at, name=name, type=parse_type(text)) for at, (name, text) in enumerate(types.items()))


_FILE_HEAD = {
    "partition": "STRING",
    "bucket": "INT NOT NULL",
    "file_path": _STRING,
    "file_format": _STRING,
    "schema_id": _COUNT,
    "level": "INT NOT NULL",
    "record_count": _COUNT,
    "file_size_in_bytes": _COUNT,
    "min_key": "STRING",
    "max_key": "STRING",
}
_VECTOR_RANGE = row_of(
    _columns(f0=_STRING, f1="INT NOT NULL", f2="INT NOT NULL", _CARDINALITY="BIGINT"),
)
_WRITE_COLUMNS = DataField(id=19, name="write_cols", type=array_of(parse_type("STRING")))
_RANGES = DataField(id=6, name="dv_ranges", type=array_of(_VECTOR_RANGE))

# The system tables whose columns do not depend on the table's.
SYSTEM_COLUMNS: Mapping[str, tuple[DataField, ...]] = {
    "snapshots": _columns(
        snapshot_id=_COUNT,
        schema_id=_COUNT,
        commit_user=_STRING,
        commit_identifier=_COUNT,
        commit_kind=_STRING,
        commit_time="TIMESTAMP(3) NOT NULL",
        base_manifest_list=_STRING,
        delta_manifest_list=_STRING,
        changelog_manifest_list="STRING",
        total_record_count="BIGINT",
        delta_record_count="BIGINT",
        changelog_record_count="BIGINT",
        watermark="BIGINT",
        next_row_id="BIGINT",
        operation="STRING",
        writer_version="STRING",
    ),
    "schemas": _columns(
        schema_id=_COUNT,
        fields=_STRING,
        partition_keys=_STRING,
        primary_keys=_STRING,
        options=_STRING,
        comment="STRING",
        update_time="TIMESTAMP(3) NOT NULL",
    ),
    "options": _columns(key=_STRING, value=_STRING),
    "files": (
        *_columns(
            **_FILE_HEAD,
            null_value_counts=_STRING,
            min_value_stats=_STRING,
            max_value_stats=_STRING,
            min_sequence_number="BIGINT",
            max_sequence_number="BIGINT",
            creation_time=_TIME,
            deleteRowCount="BIGINT",
            file_source="STRING",
            first_row_id="BIGINT",
        ),
        _WRITE_COLUMNS,
    ),
    "manifests": _columns(
        file_name=_STRING,
        file_size=_COUNT,
        num_added_files=_COUNT,
        num_deleted_files=_COUNT,
        schema_id=_COUNT,
        min_partition_stats="STRING",
        max_partition_stats="STRING",
        min_row_id="BIGINT",
        max_row_id="BIGINT",
    ),
    "tags": _columns(
        tag_name=_STRING,
        snapshot_id=_COUNT,
        schema_id=_COUNT,
        commit_time="TIMESTAMP(3) NOT NULL",
        record_count="BIGINT",
        create_time=_TIME,
        time_retained="STRING",
        tagged_snapshot_id=_COUNT,  # the name of snapshot_id in the proposal of tags
    ),
    "branches": _columns(
        branch_name=_STRING,
        create_time="TIMESTAMP(3) NOT NULL",
        tag_name="STRING",  # of the proposal of branches, as is the next one: where the branch began
        tagged_snapshot_id="BIGINT",
    ),
    "consumers": _columns(consumer_id=_STRING, next_snapshot_id=_COUNT),
    "partitions": _columns(
        partition="STRING",
        record_count=_COUNT,
        file_size_in_bytes=_COUNT,
        file_count=_COUNT,
        last_update_time=_TIME,
        created_at=_TIME,
        created_by="STRING",
        updated_by="STRING",
        options="STRING",
        total_buckets="INT NOT NULL",
        done="BOOLEAN NOT NULL",
        deleted_record_count="BIGINT",
    ),
    "buckets": _columns(
        partition="STRING",
        bucket="INT NOT NULL",
        record_count=_COUNT,
        file_size_in_bytes=_COUNT,
        file_count=_COUNT,
        last_update_time=_TIME,
    ),
    "statistics": _columns(
        snapshot_id=_COUNT,
        schema_id=_COUNT,
        mergedRecordCount="BIGINT",
        mergedRecordSize="BIGINT",
        colstat="STRING",
    ),
    "aggregation_fields": _columns(
        field_name=_STRING, field_type=_STRING, function="STRING", function_options="STRING", comment="STRING"
    ),
    "file_key_ranges": _columns(**_FILE_HEAD, first_row_id="BIGINT"),
    "table_indexes": (
        *_columns(
            partition="STRING",
            bucket="INT NOT NULL",
            index_type=_STRING,
            file_name=_STRING,
            file_size=_COUNT,
            row_count=_COUNT,
        ),
        _RANGES,
        *_columns(row_range_start="BIGINT", row_range_end="BIGINT", index_field_id="INT", index_field_name="STRING"),
    ),
}
# Those with the table's own columns.
ROW_TABLES = ("audit_log", "binlog", "ro", "row_tracking")
SYSTEM_NAMES = (*SYSTEM_COLUMNS, *ROW_TABLES)

# The system tables of a warehouse, in the database `sys`.
WAREHOUSE_COLUMNS: Mapping[str, tuple[DataField, ...]] = {
    "tables": _columns(
        database_name="STRING",
        table_name="STRING",
        table_type="STRING",
        partitioned="BOOLEAN",
        primary_key="BOOLEAN",
        owner="STRING",
        created_at="BIGINT",
        created_by="STRING",
        updated_at="BIGINT",
        updated_by="STRING",
        record_count="BIGINT",
        file_size_in_bytes="BIGINT",
        file_count="BIGINT",
        last_file_creation_time="BIGINT",
    ),
    "partitions": _columns(
        database_name="STRING",
        table_name="STRING",
        partition_name="STRING",
        recordCount="BIGINT",
        fileSizeInBytes="BIGINT",
        fileCount="BIGINT",
        lastFileCreationTime="BIGINT",
        done="BOOLEAN",
    ),
    "all_table_options": _columns(database_name="STRING", table_name="STRING", key="STRING", value="STRING"),
    "catalog_options": _columns(key=_STRING, value=_STRING),
}
