"""The rows of a micro-batch in the form of the table: its columns, its types, no null in a NOT NULL column.

Spark SQL checks everything before the shuffle. A shuffle ends before the first task after it begins, so a bad row
anywhere fails the batch before anything of it is logged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as spark

from lakelog.catalog import Table
from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import VALUE_MAX
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField, DataType, TypeRoot
from lakelog.filestore.encoding import named_type
from lakelog.filestore.options import ROWKIND_FIELD
from lakelog.filestore.schema import TableSchema
from lakelog.filestore.write import check_columns, kinds_twice, names_of, unknown_columns
from lakelog.spark.types import from_spark_schema, spark_arrow_schema, to_spark_type

_MARK = "lakelog refuses the batch: "
_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_MICROS = {0: 1_000_000, 1: 1_000, 2: 1_000, 3: 1_000}
_SHOWN_OTHERS = 5  # columns of a refused row, beside its key
_FLOATS = (spark.FloatType, spark.DoubleType)


def with_new_columns(table: Table, rows: spark.StructType, *, is_case_sensitive: bool = False) -> Table:
    """The table after the columns that it lacked were added, nullable. Raises like `Table.alter`."""
    columns = _without_kind(rows)
    if not unknown_columns(table.schema, columns.names, is_case_sensitive=is_case_sensitive):
        return table
    found = {field.name: field for field in from_spark_schema(columns)}
    return table._with_new_columns(
        spark_arrow_schema(columns), column_of=lambda field: found[field.name], is_case_sensitive=is_case_sensitive
    )


def check_schema(
    rows: spark.StructType, table: TableSchema, *, table_name: str, is_case_sensitive: bool = False
) -> None:
    """Raise InvalidRequestError unless rows of this schema can be written: table columns, and maybe `_row_kind`.

    Nullable columns of the table may be missing.
    """
    kinds = [field for field in rows.fields if field.name == ROW_KIND_COLUMN]
    if kinds and not isinstance(kinds[0].dataType, spark.StringType):
        raise InvalidRequestError(
            f"rows for table {table_name}: column {ROW_KIND_COLUMN!r} has the type {kinds[0].dataType.simpleString()}, "
            f"expected a string of {', '.join(ROW_KIND_TEXTS)}"
        )
    kind_column = ROWKIND_FIELD.of(table.options)
    if kinds and kind_column is not None:
        raise kinds_twice(kind_column, table_name=table_name)
    columns = _without_kind(rows)
    from_spark_schema(columns)
    given = spark_arrow_schema(columns)
    places = check_columns(table, given, table_name=table_name, is_case_sensitive=is_case_sensitive)
    for own, place in zip(table.arrow_schema, places, strict=True):
        if place is not None:
            _check_order(given.field(place).type, own.type, f"table {table_name}", own.name)


def _check_order(given: pa.DataType, wanted: pa.DataType, what: str, column: str) -> None:
    """Raise InvalidRequestError for structs whose fields are in another order: Spark casts them by their places."""
    if str(named_type(given, wanted, what=what, column=column)).lower() != str(given).lower():
        raise InvalidRequestError(
            f"{what}, column {column!r}: the fields of {given} are in another order than those of {wanted}; give them "
            "in that order"
        )


def _without_kind(rows: spark.StructType) -> spark.StructType:
    return spark.StructType([field for field in rows.fields if field.name != ROW_KIND_COLUMN])


def check_is_projected(table: TableSchema, *, table_name: str) -> None:
    """Raise UnsupportedError for a column that a `Projector` cannot make, since Spark lacks its type."""
    for field in table.fields:
        try:
            to_spark_type(field.type, name=field.name)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"table {table_name}, column {field.name!r} has the type {field.type}, which Spark cannot hold: its "
                "streams do not write this table; make one with at most 6 digits of a second, or write without Spark"
            ) from error


class Projector:
    """Brings the micro-batches of one stream into the form of its table.

    The expressions are made once, for as long as batches and table have the same columns: to make those of seven
    columns takes 45 ms of calls to the JVM, a tenth of a batch of 200,000 rows.
    """

    def __init__(self) -> None:
        self._made_for: tuple[object, ...] = ()
        self._columns: Sequence[Column] | None = None

    def project(
        self, rows: DataFrame, table: TableSchema, *, table_name: str, extra: Sequence[Column] = ()
    ) -> DataFrame:
        """The table's columns, checked and converted, then `_row_kind` as a TINYINT if rows have it, then `extra`.

        A column that the rows lack is null. The rows have passed `check_schema`. Rows whose columns and types are the
        table's stay as they are, since Spark would copy each: `validate_rows` then finds nulls in NOT NULL columns.
        """
        jvm = getattr(rows.sparkSession, "_jvm", None)  # an expression lives in one; Spark Connect has none
        made_for = (rows.schema, table, table_name, jvm)
        if made_for != self._made_for:
            self._columns = _projected(rows.schema, table, table_name)
            self._made_for = made_for
        if self._columns is None and not extra:
            return rows
        return rows.select(*(map(quoted_name, rows.columns) if self._columns is None else self._columns), *extra)


def _projected(rows: spark.StructType, table: TableSchema, table_name: str) -> list[Column] | None:
    """The columns to select; None if all of them would be selected as they are."""
    if _are_of(rows, table):
        return None
    name_of = names_of(table)
    given = {field.name: field for field in rows.fields}
    found = {name_of(name): field for name, field in given.items()} | given
    row = _shown_row(found, table)
    columns = [_checked(found.get(field.name), field, table, table_name, row) for field in table.fields]
    if ROW_KIND_COLUMN in given:
        columns.append(_row_kind(table_name))
    return columns


def _are_of(rows: spark.StructType, table: TableSchema) -> bool:
    """Whether rows have the table's columns in its order and types, whose values Spark need not look at."""
    return rows.names == list(table.field_names) and all(
        found.dataType == to_spark_type(field.type, name=field.name)
        and field.type.length_max is None
        and _unit_micros(field.type) is None
        for found, field in zip(rows.fields, table.fields, strict=True)
    )


def refused_row_error(error: Exception) -> InvalidRequestError | None:
    """The error of a failed check of a row, found in what Spark raised; None for another error."""
    found = re.search(re.escape(_MARK) + r"(.*?)(?: SQLSTATE|\n|$)", str(error))
    return None if found is None else InvalidRequestError(found[1].strip())


def _shown_row(found: Mapping[str | None, spark.StructField], table: TableSchema) -> Column:
    """The key of a row and some of its other columns, as JSON, for an error: computed only for the refused row."""
    keys = [name for name in table.primary_keys if name in found]
    others = [field.name for field in table.fields if field.name in found and field.name not in keys]
    shown = (
        sf.col(quoted_name(found[name].name)).cast("string").alias(name) for name in (*keys, *others[:_SHOWN_OTHERS])
    )
    return sf.left(sf.to_json(sf.struct(*shown), {"ignoreNullFields": "false"}), sf.lit(VALUE_MAX * 4))


def _checked(
    found: spark.StructField | None, field: DataField, table: TableSchema, table_name: str, row: Column
) -> Column:
    wanted = to_spark_type(field.type, name=field.name)
    if found is None:
        return sf.lit(None).cast(wanted).alias(field.name)
    given = sf.col(quoted_name(found.name))
    where = f"table {table_name}, column {field.name!r}"
    problems: list[tuple[Column, Column]] = []
    if found.nullable and not field.type.nullable:
        what = "a primary key column" if field.name in table.primary_keys else "NOT NULL"
        text = sf.concat(sf.lit(f"{where} is {what}, but a row has a null; the row begins with "), row)
        problems.append((given.isNull(), text))
    if found.dataType != wanted and isinstance(wanted, spark.NumericType) and not isinstance(wanted, _FLOATS):
        text = sf.concat(sf.lit(f"{where} is {field.type}, which cannot hold "), given.cast("string"))
        problems.append((~given.eqNullSafe(given.try_cast(wanted)), text))
    problems.extend(_value_problems(given, field, where))
    column = given if found.dataType == wanted else given.cast(wanted)
    for is_bad, text in problems:
        column = sf.when(is_bad, sf.raise_error(sf.concat(sf.lit(_MARK), text))).otherwise(column)
    return column.alias(field.name)


def _unit_micros(kind: DataType) -> int | None:
    """The microseconds of the smallest unit that a timestamp keeps; None for one that keeps all, and other types."""
    is_timestamp = kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    return _MICROS.get(kind.precision or 0) if is_timestamp else None


def _value_problems(given: Column, field: DataField, where: str) -> list[tuple[Column, Column]]:
    """What can be wrong with a value of the right type: a string that is too long, digits that would be cut off."""
    kind = field.type
    if kind.length_max is not None:
        size = sf.char_length(given) if kind.root in _TEXT else sf.octet_length(given)
        unit = "characters" if kind.root in _TEXT else "bytes"
        found = sf.concat(sf.lit(f"{where} is {kind}, but a row has "), size.cast("string"), sf.lit(f" {unit}"))
        return [(size > kind.length_max, found)]
    unit_micros = _unit_micros(kind)
    if unit_micros is not None:
        # The fraction of a second is the same in every zone.
        is_cut = sf.unix_micros(given.cast("timestamp")) % unit_micros != 0
        found = sf.concat(sf.lit(f"{where} is {kind}, which cannot hold "), given.cast("string"))
        return [(is_cut, found)]
    return []


def _row_kind(table_name: str) -> Column:
    given = sf.col(ROW_KIND_COLUMN)
    text = sf.concat(
        sf.lit(
            f"{_MARK}table {table_name}, column '{ROW_KIND_COLUMN}' must be one of {', '.join(ROW_KIND_TEXTS)}, found "
        ),
        sf.coalesce(given, sf.lit("a null")),
    )
    column = sf.raise_error(text)
    for value, kind in enumerate(ROW_KIND_TEXTS):
        column = sf.when(given == kind, sf.lit(value)).otherwise(column)
    return column.cast("tinyint").alias(ROW_KIND_COLUMN)
