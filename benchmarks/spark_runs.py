"""What the Spark benchmarks run: the same batches into plain Parquet, and into lakelog tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakelog.common.allocation  # noqa: F401  # before pyarrow, as in programs that sort their imports
from benchmarks.local_spark import start_session
from benchmarks.measuring import Measure, measured
from benchmarks.upsert_data import KEY, SCHEMA, SPARK_SCHEMA
from lakelog.catalog import Catalog, Table
from lakelog.spark import write_stream

if TYPE_CHECKING:
    import pyarrow as pa

BUCKETS = 4
TABLE = "bench.rows"
LOGGED = {"log.system": "kafka"}


def make_session() -> SparkSession:
    """Spark on two cores in this process."""
    return start_session("lakelog benchmarks")


def file_stream(session: SparkSession, folder: Path, *, shape: str = SPARK_SCHEMA) -> DataFrame:
    """A stream of a folder's Parquet files, each a micro-batch, with these columns."""
    return session.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(str(folder))


def append_plain(session: SparkSession, source: Path, work: Path, *, shape: str = SPARK_SCHEMA) -> None:
    """The floor: the stream appended as plain Parquet files, by Spark alone."""
    writer = file_stream(session, source, shape=shape).writeStream.format("parquet").trigger(availableNow=True)
    _finish(writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "plain")))


@dataclass(frozen=True, slots=True, kw_only=True)
class LakelogRun:
    """A fresh table in a warehouse of its own, with `options` beside the number of buckets."""

    session: SparkSession
    work: Path
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = TABLE
    warehouse: Path | None = None  # where runs share one, and its broker
    schema: pa.Schema = SCHEMA
    keys: tuple[str, ...] = (KEY,)
    shape: str = SPARK_SCHEMA  # of the source: the columns of the table, maybe with the kind of each change

    @property
    def catalog(self) -> Catalog:
        """The catalog of the run; with a log it has an embedded broker."""
        return Catalog(self.work / "warehouse" if self.warehouse is None else self.warehouse)

    def create(self) -> Table:
        """Make the table."""
        options = {"bucket": str(BUCKETS), **self.options}
        return self.catalog.create_table(self.name, schema=self.schema, primary_keys=self.keys, options=options)

    def upsert(self, source: Path) -> None:
        """Write all files of a folder, one micro-batch each, in a stream that ends, with the merge at its end."""
        _finish(self._start(source, available_now=True))

    def upsert_in_running_stream(self, source: Path) -> Measure:
        """The same in a stream that goes on: from its start until the last file is committed.

        Compaction runs beside it; what of it runs then still ends behind the measure.
        """
        queries: list[StreamingQuery] = []

        def run() -> None:
            queries.append(self._start(source, available_now=False))
            queries[0].processAllAvailable()

        measure = measured(run)
        queries[0].stop()
        return measure

    def _start(self, source: Path, *, available_now: bool) -> StreamingQuery:
        return write_stream(
            file_stream(self.session, source, shape=self.shape),
            self.name,
            catalog=self.catalog,
            checkpoint_location=self.work / f"checkpoint-{source.name}",
            available_now=available_now,
        )

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.catalog.load_table(self.name)


def _finish(query: StreamingQuery) -> None:
    query.awaitTermination()
    error = query.exception()
    if error is not None:
        raise error
