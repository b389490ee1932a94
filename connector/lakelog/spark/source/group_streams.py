"""Streams of several tables that move together, from code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.filestore.io.location import Location
from lakelog.spark.align_options import (
    STREAM_ALIGN,
    STREAM_ALIGN_FOLDER,
    STREAM_ALIGN_GROUP,
    STREAM_ALIGN_SNAPSHOTS,
    STREAM_ALIGN_TABLES,
    Align,
)
from lakelog.spark.options import TABLE, WAREHOUSE
from lakelog.spark.session import prepare_session
from lakelog.spark.source.consistent_read import catalog_of

GROUP_FOLDER = "lakelog-groups"  # in the checkpoint location


def read_streams(
    spark: SparkSession,
    tables: Sequence[str],
    *,
    checkpoint_location: str | Path,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    snapshots: int | str = 1,
    group: str = "streams",
    options: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Streams of tables for one query that move together, by name.

    Each batch ends, in all of them, at snapshots that show the same versions of the tables above them: a join of tables
    that were made from one source never sees two states of it. `checkpoint_location` is that of the query. A batch
    takes `snapshots` versions at most, a number or `all`. A query with several sets of tables gives each a `group` of
    its own. `options` are further ones of the reads, such as `row-kind`.
    Raises NotFoundError for a table, and InvalidRequestError for options that do not fit.
    """
    given = {
        **(options or {}),
        STREAM_ALIGN.key: Align.SNAPSHOT.value,
        STREAM_ALIGN_SNAPSHOTS.key: str(snapshots),
        STREAM_ALIGN_GROUP.key: group,
        STREAM_ALIGN_TABLES.key: ",".join(tables),
        STREAM_ALIGN_FOLDER.key: f"{Location.of(checkpoint_location).path}/{GROUP_FOLDER}",
        WAREHOUSE.key: catalog_of(catalog, warehouse).warehouse,
    }
    prepare_session(spark)
    return {name: spark.readStream.format("lakelog").options(**given).option(TABLE.key, name).load() for name in tables}
