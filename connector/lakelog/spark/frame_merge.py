"""Merges of a DataFrame into a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from lakelog.catalog import Catalog
from lakelog.spark.capture.field_capture import plan_fields_of, unknown_fields
from lakelog.spark.sink.write import recorded
from lakelog.spark.tables import TableName, resolve_table

if TYPE_CHECKING:
    from lakelog.catalog.verbs.table_merge import TableMerge


def merge(
    rows: DataFrame,
    table: TableName,
    *,
    on: str | Sequence[str] | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    job: str | None = None,
    sources: Sequence[str] | None = None,
) -> TableMerge:
    """Begin a merge of the rows of a DataFrame into a table; add its clauses, then call `execute()`.

    Like `Table.merge`: the rows are brought to the driver, and held there together with those of the table. `job` and
    `sources` are those of `write`. Raises NotFoundError.
    """
    named, fields = resolve_table(table, catalog=catalog, warehouse=warehouse), plan_fields_of(rows)
    found = recorded(rows, named, job=job, sources=sources, fields=unknown_fields(()))
    return found.merge(rows.toArrow(), on=on)._following(fields)
