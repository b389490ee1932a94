"""`lakelog table describe`: a table and its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, to_json
from lakelog.common.timestamps import utc_of

if TYPE_CHECKING:
    from lakelog.catalog import Table


def describe(
    table: TableName,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print columns, keys, options, snapshot, size and log.

    Sizes and rows refer to the data files of the newest snapshot; `lakelog table count` counts the table's rows.
    """
    found = find_table(table, warehouse, branch=branch)
    fields = _description(found)
    if as_json:
        print_lines([to_json(fields)])
        return
    columns, options = fields.pop("columns"), fields.pop("options")
    print_lines(f"{name.replace('_', ' '):<19} {_shown(value)}" for name, value in fields.items() if value is not None)
    print_lines(["", "columns"])
    assert isinstance(columns, list)
    print_grid(("name", "type", "key", "comment"), [tuple(map(_shown, column.values())) for column in columns])
    assert isinstance(options, dict)
    if options:
        print_lines(["", "options", *(f"{key}={value}" for key, value in sorted(options.items()))])


def _description(table: Table) -> dict[str, object]:
    schema, found = table.schema, table.describe()
    return {
        "name": found.name,
        "path": found.path,
        "comment": found.comment,
        "primary_keys": list(found.primary_keys),
        "partition_keys": list(found.partition_keys),
        "bucket_count": found.bucket_count,
        "schema_id": found.schema_id,
        "snapshot_id": found.snapshot_id,
        "snapshot_time": _time(found.snapshot_millis),
        "watermark": _time(found.watermark_millis),
        "last_modified": _time(found.last_modified_millis),
        "file_format": found.file_format,
        "file_count": found.file_count,
        "size_bytes": found.size_bytes,
        "rows_in_files": found.rows_in_files,
        "compacted": found.is_compacted,
        "log_system": found.log_system,
        "log_topic": found.log_topic,
        "log_topic_id": found.log_topic_id,
        "log_changelog_mode": found.changelog_mode,
        "log_bootstrap_servers": found.bootstrap_servers,
        "log_retention_millis": found.retention_millis,
        "change_tracking": found.change_tracking,
        "change_tracking_off_where": found.untracked_where,
        "columns": [
            {
                "name": field.name,
                "type": str(field.type),
                "key": _role(field.name, schema.primary_keys, schema.partition_keys),
                "comment": field.description,
            }
            for field in schema.fields
        ],
        "options": dict(schema.options),
    }


def _time(millis: int | None) -> str | None:
    return None if millis is None else utc_of(millis)


def _role(name: str, primary_keys: tuple[str, ...], partition_keys: tuple[str, ...]) -> str | None:
    roles = [role for role, names in (("primary", primary_keys), ("partition", partition_keys)) if name in names]
    return ", ".join(roles) or None


def _shown(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
