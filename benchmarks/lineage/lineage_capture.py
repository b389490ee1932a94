"""What the capture of lineage adds to micro-batches: two sinks take turns on each, one without capture."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_runs import make_session
from lakelog.catalog import Catalog, Table
from lakelog.spark import LakelogSink

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("amount", pa.int64())])
CAPTURED, PLAIN = "captured", "plain"
WARM_UPS = 3  # batches before those that count


def run(folder: Path, *, is_small: bool) -> dict[str, object]:
    """The figures of both sizes of batches."""
    session = make_session()
    large = sink_millis(session, folder / "large", rows=2_000 if is_small else 200_000, batches=2 if is_small else 25)
    small = sink_millis(session, folder / "small", rows=100, batches=2 if is_small else 60)
    added = [one - other for one, other in zip(small[CAPTURED], small[PLAIN], strict=True)]
    return {
        "batch_ms": round(median(large[CAPTURED]), 1),
        "ratio_batch": round(median(large[CAPTURED]) / median(large[PLAIN]), 3),
        "small_batch_plain_ms": round(median(small[PLAIN]), 1),
        "small_batch_ms": round(median(added), 1),
    }


def sink_millis(session: SparkSession, folder: Path, *, rows: int, batches: int) -> dict[str, list[float]]:
    """How long each sink takes for each batch of a stream between two tables, in milliseconds."""
    catalog = Catalog(folder / "lake")
    source = _filled(catalog, rows, batches + WARM_UPS)
    sinks = {name: LakelogSink(_table(catalog, name, is_captured=name == CAPTURED)) for name in (CAPTURED, PLAIN)}
    millis: dict[str, list[float]] = {name: [] for name in sinks}

    def write_both(batch: DataFrame, batch_id: int) -> None:
        names = list(sinks) if batch_id % 2 else list(reversed(sinks))
        for name in names:
            started = time.perf_counter()
            sinks[name](batch, batch_id)
            millis[name].append((time.perf_counter() - started) * 1_000)

    stream = session.readStream.format("lakelog").option("log.scan", "from-snapshot").option("scan.snapshot-id", "1")
    rows_read = stream.option("maxRowsPerTrigger", str(rows)).load(source.path)
    writer = rows_read.writeStream.foreachBatch(write_both).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    assert len(millis[PLAIN]) >= batches + WARM_UPS, f"{len(millis[PLAIN])} batches"
    return {name: found[-batches:] for name, found in millis.items()}


def _table(catalog: Catalog, name: str, *, is_captured: bool = True) -> Table:
    options = {"bucket": "4", "write-only": "true", "lineage.capture": str(is_captured).lower()}
    return catalog.create_table(f"bench.{name}", schema=SCHEMA, primary_keys=["id"], options=options)


def _filled(catalog: Catalog, rows: int, snapshots: int) -> Table:
    table = _table(catalog, "source")
    ids = np.arange(rows)
    for amount in range(snapshots):
        table.write(pa.table({"id": ids, "amount": np.full(rows, amount)}, schema=SCHEMA))
    return table
