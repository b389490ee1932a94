"""Batch reads from code: the options of the format as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.catalog.moments import parse_moment
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.options import SCAN_SNAPSHOT_ID
from lakelog.filestore.predicate import check_filter, parse_where
from lakelog.spark.data_source import FORMAT, LakelogDataSource
from lakelog.spark.options import COLUMNS, TIMEZONE, WHERE
from lakelog.spark.session import prepare_session
from lakelog.spark.tables import TableName, resolve_table

AsOf = int | str | datetime


def read(
    spark: SparkSession,
    table: TableName,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: AsOf | None = None,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
) -> DataFrame:
    """The rows of a table as a DataFrame.

    `columns` and `where` (Spark SQL) reach the files, unlike `select` and `filter` on the result. `as_of` is a snapshot
    id, a moment, or a moment as text. The snapshot is chosen when Spark plans the first query of the DataFrame; all of
    its queries see that one. Raises NotFoundError and InvalidRequestError at once.
    """
    opened = resolve_table(table, catalog=catalog, warehouse=warehouse)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    prepare_session(spark)
    reader = spark.read.format(FORMAT).option(TIMEZONE.key, zone)
    if columns is not None:
        opened.schema.select(columns)
        reader = reader.option(COLUMNS.key, _joined(columns))
    if where is not None:
        check_filter(parse_where(where, zone=zone), opened.schema.fields)
        reader = reader.option(WHERE.key, where)
    if as_of is not None:
        snapshot_id, moment = _point(as_of, ZoneInfo(zone))
        found = opened.file_store.snapshot(snapshot_id=snapshot_id, timestamp_millis=moment)
        assert found is not None, "a point in time has a snapshot, or is an error"
        reader = reader.option(SCAN_SNAPSHOT_ID.key, found.id)
    return reader.load(opened.path)


def register(spark: SparkSession) -> None:
    """Make the format known to a session. Spark finds it by itself where lakelog is installed for its Python."""
    prepare_session(spark)
    spark.dataSource.register(LakelogDataSource)


def _joined(columns: Sequence[str]) -> str:
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns must be a list of names, found the text {columns!r}")
    for name in columns:
        if "," in name:
            raise InvalidRequestError(f"column {name!r} has a comma in its name: select it from the DataFrame instead")
    return ",".join(columns)


def _point(as_of: AsOf, zone: ZoneInfo) -> tuple[int | None, int | None]:
    """The snapshot id, or the moment in milliseconds."""
    if isinstance(as_of, int):
        return as_of, None
    text = as_of.isoformat() if isinstance(as_of, datetime) else as_of
    try:
        return None, parse_moment(text, zone)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"as_of is {as_of!r}; expected a snapshot id, a datetime, or text such as '2026-01-31 12:00:00'"
        ) from error
