"""A query of Spark that starts from a named state, stopped and started again: its rows, then each change once.

`tests/spark/source/test_stream_matrix.py` has every cell of the matrix without Spark's processes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.streams.state_stream import Changes, Expected
from tests.support.tables.named_states import KINDS, Filled


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "way", "is_expired"),
    [
        ("evolved", "timestamp", True),
        ("keyed", "snapshot", False),
        ("partitioned", "watermark", False),
        ("append", "branch.tag", True),
        ("append", "version of a tag", True),
        ("deletion vectors", "tag of a branch", True),
        ("deletion vectors", "branch", True),
    ],
)
def test_a_query_has_the_rows_of_a_state_then_each_change_once(
    spark: SparkSession, tmp_path: Path, kind: str, way: str, *, is_expired: bool
) -> None:
    filled = Filled(tmp_path, KINDS[kind])
    if is_expired:
        filled.expire()
    expected = Expected.of(filled, way, is_expired=is_expired)
    named = {key: str(value) for key, value in filled.named(way).items()}
    options = {"columns": "day,id,v", "row-kind": "true", "maxRowsPerTrigger": "2", **named, **expected.options}
    found: Changes = Counter()

    def keep(batch: DataFrame, _: int) -> None:
        found.update((row["_row_kind"], (row["day"], row["id"], row["v"])) for row in batch.collect())

    def run() -> Changes:
        rows = spark.readStream.format("lakelog").options(**options).load(filled.table.path)
        query = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "reader"))
        query.trigger(availableNow=True).start().awaitTermination()
        return found

    wanted = expected.begins + expected.behind
    assert run() == wanted
    wanted += expected.write_on()
    assert run() == wanted
