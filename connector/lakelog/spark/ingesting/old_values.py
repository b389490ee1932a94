"""Old values that a record leaves out: unchanged long values, and the rows that a truncation deletes.

PostgreSQL logs a long value (TOAST) only when it changes; Debezium writes a placeholder. The value comes from the
previous row: in the batch, else in the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from lakelog.catalog import Table
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.types import ROW_KIND_COLUMN, TypeRoot
from lakelog.spark.source.batch.read import read

ORDER_COLUMN = "_lakelog_ingest_order"
NOT_FOUND = (
    "an unchanged value is not in the record (TOAST), and neither the table nor the batch has a row of this key to take"
    " it from; set REPLICA IDENTITY FULL in the database, or let the connector write a new snapshot of the table"
)
_LOOKED_UP_MAX = 1_000
_PLACE = ("partition", "offset", "place")
_LITERALS = frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.VARCHAR})


def with_old_values(decoded: DataFrame, table: Table, columns: Sequence[str]) -> DataFrame:
    """Decoded rows, with the unchanged values of `columns` filled in.

    A row whose old value is not found becomes a dead letter: `row` is null, and `reason` is set.
    """
    keys = [f"row.{quoted_name(name)}" for name in table.schema.primary_keys]
    lacks = sf.size("unavailable") > 0
    pending = decoded.where(lacks).select(*keys).distinct()
    placed = decoded.withColumn("place", sf.monotonically_increasing_id())
    old = _old_rows(pending, table, columns)
    rows = placed.unionByName(_as_decoded(old, placed, table, columns), allowMissingColumns=True)
    history = Window.partitionBy(*keys).orderBy(*_PLACE).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = sf.col("row")
    is_lost = sf.lit(False)
    for name in columns:
        is_known = ~sf.coalesce(sf.array_contains("unavailable", name), sf.lit(False))
        last = sf.last(
            sf.when(is_known, sf.struct(sf.col(f"row.{quoted_name(name)}").alias("value"))), ignorenulls=True
        )
        value = last.over(history)
        is_lost |= sf.coalesce(sf.array_contains("unavailable", name), sf.lit(False)) & value.isNull()
        found = found.withField(quoted_name(name), value.getField("value"))
    is_row = sf.col("row").isNotNull()
    return (
        rows.withColumn("_found", sf.when(is_row, found))
        .withColumn("_lost", is_row & is_lost)
        .where(sf.col("partition").isNull() | (sf.col("partition") >= 0))
        .withColumn("row", sf.when(~sf.col("_lost"), sf.col("_found")))
        .withColumn("reason", sf.when(sf.col("_lost"), sf.lit(NOT_FOUND)).otherwise(sf.col("reason")))
        .drop("_found", "_lost", "place")
    )


def _old_rows(pending: DataFrame, table: Table, columns: Sequence[str]) -> DataFrame:
    """The keys that are looked up, with their old values. Few keys are read by a condition, many by a join."""
    names = [*table.schema.primary_keys, *columns]
    kinds = {field.name: field.type.root for field in table.schema.fields}
    condition = None
    if len(table.schema.primary_keys) == 1 and kinds[table.schema.primary_keys[0]] in _LITERALS:
        some = pending.limit(_LOOKED_UP_MAX + 1).collect()
        if len(some) <= _LOOKED_UP_MAX:
            condition = (
                f"{quoted_name(table.schema.primary_keys[0])} IN ({', '.join(_literal(one[0]) for one in some)})"
            )
    old = read(pending.sparkSession, table, columns=names, where=condition)
    return old.join(pending, on=list(table.schema.primary_keys), how="left_semi")


def _as_decoded(old: DataFrame, decoded: DataFrame, table: Table, columns: Sequence[str]) -> DataFrame:
    """Rows of the table as decoded rows that come before all others."""
    given = {*table.schema.primary_keys, *columns}
    kind = decoded.schema["row"].dataType
    members = [
        (sf.col(quoted_name(one.name)) if one.name in given else sf.lit(None)).cast(one.dataType).alias(one.name)
        for one in kind.fields  # type: ignore[attr-defined]  # it is a struct
    ]
    return old.select(
        sf.struct(*members).alias("row"),
        sf.lit("+I").alias(ROW_KIND_COLUMN),
        sf.lit(-1).alias("partition"),
        sf.lit(-1).cast("long").alias("offset"),
        sf.lit(-1).cast("long").alias("place"),
    )


def _literal(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def behind_truncation(decoded: DataFrame, table: Table, offset: int) -> DataFrame:
    """The rows of a batch whose last truncation is at `offset`: deletes of all, then the changes behind it."""
    changes = decoded.where(sf.col("offset") > offset).select("row.*", ROW_KIND_COLUMN, sf.lit(1).alias(ORDER_COLUMN))
    if table.snapshot() is None:
        return changes
    old = read(decoded.sparkSession, table)
    return old.select(
        *(sf.col(quoted_name(field.name)) for field in table.schema.fields),
        sf.lit("-D").alias(ROW_KIND_COLUMN),
        sf.lit(0).alias(ORDER_COLUMN),
    ).unionByName(changes)
