"""Every kind of table takes the changes that the guide says it takes, and its rows can be read afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any  # Any: parsed JSON

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.spark.ingesting.counts import Counts
from lakelog.spark.ingesting.decoding import Decoder
from lakelog.spark.ingesting.rules import RulesOf
from lakelog.spark.source.streams.kafka_records import RECORD_SCHEMA
from lakelog.spark.types import spark_arrow_schema

DDL = "id INT NOT NULL, n INT"
Row = dict[str, int]


def change(op: str, before: Row | None = None, after: Row | None = None) -> bytes:
    return json.dumps({"before": before, "after": after, "source": {}, "op": op}).encode()


UPDATE, MOVE, DELETE, TRUNCATE = 2, 3, 4, 6
VALUES = [
    change("r", after={"id": 1, "n": 1}),
    change("c", after={"id": 2, "n": 2}),
    change("u", {"id": 1, "n": 1}, {"id": 1, "n": 5}),
    change("u", {"id": 2, "n": 2}, {"id": 3, "n": 2}),
    change("d", {"id": 1, "n": 5}),
    change("m"),
    change("t"),
]

KEY: dict[str, Any] = {"primary_keys": ["id"]}


def of_engine(engine: str, **options: str) -> dict[str, Any]:
    return {**KEY, "options": {"bucket": "1", "merge-engine": engine, **options}}


MAX = {"fields.n.aggregate-function": "max"}
KINDS: list[tuple[str, dict[str, Any], set[int]]] = [
    ("primary key", KEY, set()),
    ("value-count", {"options": {"write-mode": "change-log", "bucket": "1"}}, {TRUNCATE}),
    ("append-only", {}, {UPDATE, MOVE, DELETE, TRUNCATE}),
    ("ignore-delete", of_engine("deduplicate", **{"ignore-delete": "true"}), set()),
    ("first-row", of_engine("first-row"), {MOVE, DELETE, TRUNCATE}),
    ("first-row without deletes", of_engine("first-row", **{"ignore-delete": "true"}), set()),
    ("partial-update", of_engine("partial-update"), {MOVE, DELETE, TRUNCATE}),
    (
        "partial-update with deletes",
        of_engine("partial-update", **{"partial-update.remove-record-on-delete": "true"}),
        set(),
    ),
    ("last value", of_engine("aggregation"), set()),
    ("max", of_engine("aggregation", **MAX), {MOVE, DELETE, TRUNCATE}),
    ("max with deletes", of_engine("aggregation", **MAX, **{"aggregation.remove-record-on-delete": "true"}), set()),
]


def decoded(table: Table) -> tuple[pa.Table, Counts]:
    """The changes of the records, as a task of an ingest gives them."""
    count = len(VALUES)
    columns = [
        pa.nulls(count, pa.binary()),
        pa.array(VALUES, pa.binary()),
        pa.array(["topic"] * count),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.array([1_000_000] * count, pa.timestamp("us", "UTC")),
        pa.array(["id"] * count),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=spark_arrow_schema(RECORD_SCHEMA))
    decoder = Decoder.of(table, RulesOf()(table), orders_truncations=True)
    made = pa.Table.from_batches(list(decoder(iter([batch]))))
    return made, Counts.of_json(made["summary"].drop_null()[0].as_py())


@pytest.mark.parametrize(("options", "bad"), [one[1:] for one in KINDS], ids=[one[0] for one in KINDS])
def test_a_kind_of_table_takes_what_it_can_hold_and_stays_readable(
    options: dict[str, Any], bad: set[int], tmp_path: Path
) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=DDL, **options)

    made, counts = decoded(table)

    letters = made.filter(made["reason"].is_valid())
    assert set(letters["offset"].to_pylist()) == bad
    assert (counts.accepted, counts.dead) == (len(VALUES) - len(bad), len(bad))
    changes = made.filter(made["row"].is_valid())
    for at in range(len(changes)):
        row = pa.Table.from_pylist([changes["row"][at].as_py()], schema=table.schema.arrow_schema)
        table.write(row, row_kinds=changes[ROW_KIND_COLUMN][at].as_py())
    table.compact()
    rows = sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())
    if not bad - {TRUNCATE} and "ignore-delete" not in str(options) and "aggregation" not in str(options):
        assert rows == [(3, 2)]


def test_a_record_that_a_table_cannot_hold_says_the_way_out(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=DDL)

    _, counts = decoded(table)

    assert counts.first_bad is not None
    assert "write-mode=change-log" in counts.first_bad.reason
