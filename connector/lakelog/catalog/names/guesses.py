"""What users of other libraries type, with what is meant here: verbs of Delta Lake, Iceberg and Spark.

An error for a name that does not exist here looks it up, so that nothing of this is loaded before.
"""

from __future__ import annotations

from collections.abc import Mapping

_OF_TABLES = {
    "append": "write(rows) adds rows, and replaces those whose primary key exists",
    "insert": "write(rows) adds rows, and replaces those whose primary key exists",
    "upsert": "write(rows) upserts by the primary key; merge(rows, ...) by any condition",
    "add": "write(rows)",
    "head": "to_duckdb().limit(10), or to_polars().head(10).collect()",
    "limit": "to_duckdb().limit(10), or to_polars().head(10).collect()",
    "take": "to_duckdb().limit(10), or to_polars().head(10).collect()",
    "show": "to_polars().head(10).collect(), or to_duckdb()",
    "scan": "to_arrow(where=..., columns=...), to_polars(), to_duckdb()",
    "to_table": "to_arrow()",
    "to_pyarrow_table": "to_arrow()",
    "to_df": "to_pandas(), or to_polars()",
    "toDF": "lakelog.spark.read(spark, table)",
    "collect": "to_arrow()",
    "columns": "schema.fields",
    "fields": "schema.fields",
    "options": "schema.options",
    "properties": "schema.options",
    "inspect": "system.table(name), such as system.table('files')",
    "files": "system.table('files').to_arrow()",
    "current_snapshot": "snapshot()",
    "version": "snapshot().id",
    "as_of": "to_arrow(snapshot_id=...), or with tag=, timestamp=",
    "restoreToVersion": "restore(...)",
    "optimize": "compact(full=True)",
    "vacuum": "upkeep.expire_snapshots(), then upkeep.remove_orphan_files()",
    "expire_snapshots": "upkeep.expire_snapshots()",
    "create_tag": "tags.create(name)",
    "create_branch": "branches.create(name)",
    "drop": "Catalog.drop_table(name)",
    "rename": "Catalog.rename_table(name, new_name)",
}
_OF_CATALOGS = {
    "table": "load_table(name)",
    "get_table": "load_table(name)",
    "open_table": "load_table(name)",
    "tables": "list_tables(database)",
    "list_namespaces": "list_databases()",
    "databases": "list_databases()",
    "create_namespace": "create_database(name)",
    "drop_namespace": "drop_database(name)",
    "create_table_if_not_exists": "create_table(name, ..., if_not_exists=True)",
    "sql": "lakelog.sql.connect(catalog).sql(text)",
}
_KEYWORDS = {
    "limit": "rows are limited by to_duckdb().limit(10), or by to_polars().head(10).collect()",
    "filter": "where=",
    "filters": "where=",
    "predicate": "where=",
    "row_filter": "where=",
    "condition": "where=",
    "selected_fields": "columns=",
    "select": "columns=",
    "mode": "write(rows) adds rows, overwrite(rows) replaces all",
    "partition_by": "partition_keys=",
    "primary_key": "primary_keys=",
    "properties": "options=",
}
_MEMBERS: Mapping[str, Mapping[str, str]] = {"Table": _OF_TABLES, "Catalog": _OF_CATALOGS}


def missing_member(owner: object, name: str) -> AttributeError:
    """Build the error for a member that an object does not have."""
    cls = type(owner).__name__
    meant = _MEMBERS.get(cls, {}).get(name)
    hint = "" if meant is None else f"; here that is {meant}"
    return AttributeError(f"{cls!r} object has no attribute {name!r}{hint}")


def keyword_hint(keyword: str) -> str | None:
    """What a keyword of another library is here; None if that is not known."""
    return _KEYWORDS.get(keyword)
