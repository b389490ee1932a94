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
from lakelog.filestore.predicate import check_filter, parse_where
from lakelog.spark.session import prepare_session
from lakelog.spark.source.file_scan import Selection, scan_snapshot
from lakelog.spark.tables import TableName, resolve_files

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

    `columns` and `where` (Spark SQL) reach all files; `select` and `filter` on the result only those that need no
    merge. `as_of` is a snapshot id, a moment, or a moment as text; the newest snapshot is read without it. The snapshot
    is chosen now: all queries of the DataFrame see that one. Raises NotFoundError and InvalidRequestError at once.
    """
    opened = resolve_files(table, catalog=catalog, warehouse=warehouse)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    prepare_session(spark)
    fields = opened.schema.fields if columns is None else opened.schema.select(_checked(columns))
    predicate = None
    if where is not None:
        predicate = parse_where(where, zone=zone)
        check_filter(predicate, opened.schema.fields)
    snapshot_id, moment = (None, None) if as_of is None else _point(as_of, ZoneInfo(zone))
    snapshot = opened._files.snapshot(snapshot_id=snapshot_id, timestamp_millis=moment)
    selection = Selection(fields=tuple(fields), where=where, predicate=predicate)
    return scan_snapshot(spark, opened._files, snapshot, selection)


def _checked(columns: Sequence[str]) -> Sequence[str]:
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns must be a list of names, found the text {columns!r}")
    return columns


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
