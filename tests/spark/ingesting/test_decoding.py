"""What the tasks of an ingest give: each record is counted once, and a letter holds it whole. No Spark runs here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: rules of any type

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.spark.ingesting.counts import Counts
from lakelog.spark.ingesting.dead_letters import LettersWrite, letter_box
from lakelog.spark.ingesting.decoding import Decoder
from lakelog.spark.ingesting.growing import check_grown, grown
from lakelog.spark.ingesting.rules import RulesOf
from lakelog.spark.source.streams.kafka_records import RECORD_SCHEMA
from lakelog.spark.types import spark_arrow_schema
from tests.support.attacks.malformed import DDL, envelope, row
from tests.support.attacks.mutated import DDL as MUTATED_DDL
from tests.support.attacks.mutated import ROW, mutated


def table_of(folder: Path) -> Table:
    return Catalog(str(folder / "lake")).create_table("db.t", schema=DDL, primary_keys=["id"])


def decoder_of(table: Table) -> Decoder:
    return Decoder.of(table, RulesOf()(table), orders_truncations=True)


def batch_of(values: Sequence[bytes | None], *, first: int = 0) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array([b"key"] * count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(["topic"] * count),
        pa.array([0] * count, pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        pa.array([1_000_000] * count, pa.timestamp("us", "UTC")),
        pa.array(["id"] * count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=spark_arrow_schema(RECORD_SCHEMA))


def run(decoder: Decoder, *batches: pa.RecordBatch) -> tuple[pa.Table, Counts]:
    made = pa.Table.from_batches(list(decoder(iter(batches))))
    summaries = made["summary"].drop_null().to_pylist()
    assert len(summaries) == 1
    return made, Counts.of_json(summaries[0])


def test_every_record_is_counted_once(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    values = [row(id=1), None, b"{", envelope(op="m"), row(id=2, name=None), envelope(op="t"), row(id=3)]

    made, counts = run(decoder_of(table), batch_of(values), batch_of([row(id=4), b""], first=7))

    assert (counts.input, counts.accepted, counts.dead, counts.rows) == (9, 6, 3, 3)
    assert counts.truncation == 5
    assert counts.first_bad is not None
    assert (counts.first_bad.offset, counts.first_bad.reason[:17]) == (2, "not a JSON record")
    letters = [one for one in made.to_pylist() if one["reason"] is not None]
    assert [(one["offset"], one["value"], one["key"], one["topic_id"]) for one in letters] == [
        (2, b"{", b"key", "id"),
        (4, values[4], b"key", "id"),
        (8, b"", b"key", "id"),
    ]
    rows = [(one["row"]["id"], one["_row_kind"]) for one in made.to_pylist() if one["row"] is not None]
    assert rows == [(1, "+I"), (3, "+I"), (4, "+I")]


def test_a_truncation_without_an_order_is_bad(tmp_path: Path) -> None:
    decoder = replace(decoder_of(table_of(tmp_path)), orders_truncations=False)

    _, counts = run(decoder, batch_of([envelope(op="t"), row(id=1)]))

    assert (counts.accepted, counts.dead, counts.truncation) == (1, 1, None)
    assert counts.first_bad is not None
    assert "truncates the table" in counts.first_bad.reason


def test_a_row_that_lacks_an_old_value_has_its_record_beside_it(tmp_path: Path) -> None:
    value = row(name="__debezium_unavailable_value")

    made, counts = run(decoder_of(table_of(tmp_path)), batch_of([row(id=5), value]))

    assert counts.unavailable == ("name",)
    first, second = made.to_pylist()[:2]
    assert (first["unavailable"], first["value"]) == (None, None)
    assert (second["unavailable"], second["value"], second["row"]["name"]) == (["name"], value, None)


def test_letters_are_there_once_and_are_known_by_their_batch(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    box = letter_box(table, None, catalog=None)
    letter = {
        "table_name": "db.t",
        "topic_id": "id",
        "partition": 1,
        "offset": 2,
        "topic": "topic",
        "timestamp": None,
        "reason": "it's bad",
        "key": b"key",
        "value": b"\0",
        "writer": "q'uery",
        "batch": 7,
    }
    letters = pa.RecordBatch.from_pylist([letter], schema=box.table.schema.arrow_schema)

    for _ in range(2):
        list(LettersWrite(table=box.table.store, kind="+I")(iter([letters])))

    assert box.table.to_arrow().to_pylist() == [letter]
    assert box.kept(topic_id="id", writer="q'uery", batch_id=7) == {(1, 2)}
    assert box.kept(topic_id="id", writer="q'uery", batch_id=8) == frozenset()
    made, counts = run(replace(decoder_of(table), kept=frozenset({(0, 1)})), batch_of([row(id=1), row(id=2)]))
    assert (counts.accepted, counts.dead, counts.kept, counts.rows) == (1, 1, 1, 1)
    assert made["reason"].null_count == len(made)

    list(LettersWrite(table=box.table.store, kind="-D")(iter([letters])))
    assert box.table.count() == 0


def test_counts_travel_as_they_are(tmp_path: Path) -> None:
    rules = RulesOf(takes_new_columns=True)
    table = table_of(tmp_path)
    decoder = Decoder.of(table, rules(table), orders_truncations=True)
    values = [row(id=1, tags=["x"]), row(id=2, big=1.5), row(id=3, big=1)]

    _, counts = run(decoder, batch_of(values))

    assert Counts.of_json(counts.to_json()) == counts
    assert {name: str(kind) for name, kind in counts.new_columns.items()} == {"tags": "STRING", "big": "DOUBLE"}
    assert json.loads(counts.to_json())["input"] == 3
    changed, refused = grown(table, counts, {})
    assert changed.schema.field_names[-2:] == ("tags", "big")
    assert refused == {}


def counts_of(table: Table, rules: RulesOf, values: Sequence[bytes], **changes: Any) -> Counts:
    decoder = Decoder.of(table, replace(rules(table), **changes), orders_truncations=True)
    return run(decoder, batch_of(values))[1]


def test_members_that_nested_columns_lack_are_added_to_them(tmp_path: Path) -> None:
    ddl = f"{DDL}, s STRUCT<p: BIGINT>, items ARRAY<STRUCT<n: INT>>, m MAP<STRING, STRUCT<v: INT>>"
    table = Catalog(str(tmp_path)).create_table("db.t", schema=ddl, primary_keys=["id"])
    values = [
        row(id=1, s={"p": 1, "new": 2}, items=[{"n": 1, "tag": "x"}]),
        row(id=2, s={"p": 1, "new": 1.5}, m={"k": {"v": 1, "flag": True}}, added="x"),
    ]
    rules = RulesOf(takes_new_columns=True)

    changed, refused = grown(table, counts_of(table, rules, values), {})
    counts = counts_of(changed, rules, values)

    assert refused == {}
    assert (counts.accepted, counts.dead, counts.has_new) == (2, 0, False)
    assert [str(one.type) for one in changed.schema.fields[4:]] == [
        "ROW<p BIGINT, new DOUBLE>",
        "ARRAY<ROW<n INT, tag STRING>>",
        "MAP<STRING NOT NULL, ROW<v INT, flag BOOLEAN>>",
        "STRING",
    ]


def test_a_column_that_the_table_cannot_get_makes_its_records_bad(tmp_path: Path) -> None:
    """Names that the format keeps for itself: one record with such a column would end every run."""
    table = table_of(tmp_path)
    rules = RulesOf(takes_new_columns=True)
    values = [row(id=1, _KEY_id=1), row(id=2, added=1), row(id=3, **{"": 1}), row(id=4, _row_kind="x")]

    changed, refused = grown(table, counts_of(table, rules, values), {})
    counts = counts_of(changed, rules, values, refused=refused)

    assert changed.schema.field_names[-1] == "added"
    assert (counts.accepted, counts.dead, counts.has_new) == (1, 3, False)
    assert counts.first_bad is not None
    assert counts.first_bad.reason.startswith("unknown column '_KEY_id': it cannot be added to the table: ")


def test_a_column_that_was_refused_stays_so_when_a_later_batch_adds_another_one(tmp_path: Path) -> None:
    """The batch is decoded again then: the record would be taken in without the column, and its value lost."""
    table, rules = table_of(tmp_path), RulesOf(takes_new_columns=True)
    table, refused = grown(table, counts_of(table, rules, [row(id=1, _KEY_id=1)]), {})
    values = [row(id=2, _KEY_id=5), row(id=3, added=1)]

    table, refused = grown(table, counts_of(table, rules, values, refused=refused), refused)
    counts = counts_of(table, rules, values, refused=refused)

    assert (counts.accepted, counts.dead, counts.has_new) == (1, 1, False)


def test_records_with_columns_that_a_table_lost_while_they_were_added_are_not_taken_in(tmp_path: Path) -> None:
    table, rules = table_of(tmp_path), RulesOf(takes_new_columns=True)
    counts = counts_of(table, rules, [row(id=1, added=1)])
    changed, _ = grown(table, counts, {})
    check_grown(changed, counts_of(changed, rules, [row(id=1, added=1)]))

    with pytest.raises(ConflictError, match=r"lacks the column\(s\) .*added"):
        check_grown(table, counts)


def test_members_that_are_left_out_are_counted(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=f"{DDL}, s STRUCT<p: BIGINT>", primary_keys=["id"])
    values = [row(id=number, s={"p": 1, "new": 2, "nil": None}) for number in range(100)]

    counts = counts_of(table, RulesOf(drops_members=True), values)

    assert (counts.accepted, counts.dead, counts.left_out) == (100, 0, 100)
    with pytest.raises(InvalidRequestError, match="give one"):
        RulesOf(takes_new_columns=True, drops_members=True)


def test_a_timestamp_that_spark_cannot_hold_is_a_bad_record(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    values = [row(id=1), row(id=2, at=9_000_000_000_000_000_000), row(id=3)]

    made, counts = run(decoder_of(table), batch_of(values))

    assert [one["id"] for one in made["row"].drop_null().to_pylist()] == [1, 3]
    assert counts.first_bad is not None
    assert counts.first_bad.reason.startswith("wrong type: column 'at': ")


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
@pytest.mark.parametrize("rules", [RulesOf(), RulesOf(takes_new_columns=True), RulesOf(drops_members=True)])
def test_mutated_records_are_rows_or_letters(rules: RulesOf, count: int, tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("db.t", schema=MUTATED_DDL, primary_keys=["id"])
    values = list(mutated(count, ROW, seed=31))

    made, counts = run(
        Decoder.of(table, rules(table), orders_truncations=True),
        *(batch_of(values[at : at + 50], first=at) for at in range(0, count, 50)),
    )

    assert (counts.input, counts.accepted + counts.dead) == (count, count)
    assert made["reason"].null_count == len(made) - counts.dead
    assert 0 < counts.dead < count
