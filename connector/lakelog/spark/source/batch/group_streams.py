"""Streams of several tables that move together: the Python function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.common.file_names import check_user_name
from lakelog.filestore.io import Location, store_options
from lakelog.filestore.metadata.tables import identity_of
from lakelog.lineage.answers.startup import record_startup, startup_snapshots
from lakelog.spark.options import TABLE, WAREHOUSE
from lakelog.spark.session import prepare_session
from lakelog.spark.source.batch.consistent_read import catalog_of
from lakelog.spark.source.reading.group_folder import GroupFolder
from lakelog.streams.options.align_options import (
    STREAM_ALIGN,
    STREAM_ALIGN_FOLDER,
    STREAM_ALIGN_GROUP,
    STREAM_ALIGN_SNAPSHOTS,
    STREAM_ALIGN_TABLES,
    Align,
)

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
    job: str | None = None,
    beside: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, DataFrame]:
    """Streams of several tables that move together in one query, by name.

    Each batch ends, in all of them, at snapshots that show the same versions of the tables above them: a join of tables
    that were made from one source never sees two states of it. `checkpoint_location` is that of the query. A batch
    takes `snapshots` versions at most, a number or `all`. A query with several sets of tables gives each a `group` of
    its own. `options` are further ones of the reads, such as `row-kind`.
    With `job`, its name, a query without a checkpoint starts beside the other jobs that read the tables: at snapshots
    that are consistent with the tables that those jobs make, or only with `beside`; they are written to
    `sys.job_startup`. Raises NotFoundError for a table, and for a start for which no snapshots are consistent
    (NotConsistentError).
    """
    catalog, checkpoint = catalog_of(catalog, warehouse), Location.of(checkpoint_location, store_options(options or {}))
    if job is not None:
        start_beside(catalog, tables, checkpoint, group=group, job=job, beside=beside)
    elif beside is not None:
        raise InvalidRequestError("beside is where a job starts: name the job, with job=")
    given = {
        **(options or {}),
        STREAM_ALIGN.key: Align.SNAPSHOT.value,
        STREAM_ALIGN_SNAPSHOTS.key: str(snapshots),
        STREAM_ALIGN_GROUP.key: group,
        STREAM_ALIGN_TABLES.key: ",".join(tables),
        STREAM_ALIGN_FOLDER.key: f"{checkpoint.path}/{GROUP_FOLDER}",
        WAREHOUSE.key: catalog.warehouse,
    }
    prepare_session(spark)
    return {name: spark.readStream.format("lakelog").options(**given).option(TABLE.key, name).load() for name in tables}


def start_beside(
    catalog: Catalog,
    tables: Sequence[str],
    checkpoint: Location,
    *,
    group: str,
    job: str,
    beside: Sequence[str] | None = None,
) -> None:
    """Decide where a query without a checkpoint starts, and record it; does nothing for a query that has begun.

    The decision stays until the first batch is committed, even if the process dies before that.
    """
    if checkpoint.file_io.list_names(f"{checkpoint.path}/offsets"):
        return
    folder = GroupFolder(
        f"{checkpoint.path}/{GROUP_FOLDER}", checkpoint.file_io, group=check_user_name(group, STREAM_ALIGN_GROUP.key)
    )
    identities = {name: identity_of(catalog.load_table(name).store) for name in tables}
    decided = folder.find(None)
    if decided is None:
        found = startup_snapshots(catalog, tables, beside=beside)
        decided = folder.decide(None, {identity: found[name] for name, identity in identities.items()})
    record_startup(catalog, job, {name: decided[identity] for name, identity in identities.items()})
