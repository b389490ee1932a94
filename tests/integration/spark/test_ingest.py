"""Changes of Debezium topics into tables, through a real broker and a real Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Any: options of any type

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_store import find_document
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import delete_topic
from lakelog.spark import error_of, ingest, replay_dead_letters
from tests.support.attacks.malformed import DDL, malformed
from tests.support.attacks.mutated import DDL as MUTATED_DDL
from tests.support.attacks.mutated import ROW, mutated
from tests.support.logs.debezium_fixtures import FIXTURES, Fixture
from tests.support.logs.foreign_topics import fill, new_topic, records_of
from tests.support.logs.promises import check_log_equals_files

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

IN_GATE = ("orders",)
LOG = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}


def run(spark: SparkSession, topic: KafkaTopic, table: Table, folder: Path, **options: Any) -> None:
    """Take in what the topic has now."""
    query = ingest(
        spark,
        topic.name,
        table,
        bootstrap_servers=topic.client_config["bootstrap.servers"],
        checkpoint_location=folder / "checkpoint",
        available_now=True,
        **options,
    )
    query.awaitTermination()


def table_of(folder: Path, servers: str, fixture: Fixture, options: Mapping[str, str]) -> Table:
    catalog = Catalog(str(folder / "lake"), bootstrap_servers=servers)
    return catalog.create_table("db.t", schema=fixture.ddl, primary_keys=list(fixture.keys), options=options)


@pytest.mark.parametrize(
    "name", [name if name in IN_GATE else pytest.param(name, marks=pytest.mark.full) for name in FIXTURES]
)
def test_the_topics_of_debezium_end_in_their_tables(
    name: str, spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    fixture = FIXTURES[name]
    topic = new_topic(bootstrap_servers)
    fill(topic, records_of(*fixture.keys_and_values()))
    table = table_of(tmp_path, bootstrap_servers, fixture, LOG if name == "customers" else {"bucket": "2"})
    modes = {
        "binary_handling_mode": fixture.forms.binaries.value,
        "decimal_handling_mode": fixture.forms.decimals.value,
        "time_precision_mode": fixture.forms.times.value,
    }

    run(spark, topic, table, tmp_path, max_offsets_per_trigger=40, **modes)

    assert fixture.shown(table.to_arrow()) == fixture.expected()
    if table.log is not None:
        check_log_equals_files(table)


def order(number: int, **columns: Any) -> bytes:
    """An insert."""
    row = {"id": number, "name": f"name {number}", **columns}
    return json.dumps({"before": None, "after": row, "source": {}, "op": "c"}).encode()


SMALL = Fixture(name="", ddl=DDL, keys=("id",))


@pytest.mark.full
def test_accepted_and_dead_add_up_to_what_was_read(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Ten thousand malformed records among good ones: each is a letter, with its bytes; a mend takes in what fits."""
    topic = new_topic(bootstrap_servers)
    bad = list(malformed(10_000, seed=29))
    wide = [order(number, added=number) for number in range(2_000, 2_010)]
    fill(topic, [(None, value) for value in [order(1), *bad, order(2), *wide]])
    table = table_of(tmp_path, bootstrap_servers, SMALL, LOG)

    run(spark, topic, table, tmp_path, on_error="dead-letter", max_offsets_per_trigger=4_000)

    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    letters = open_table("db.t_dead_letters", tmp_path / "lake").to_arrow()
    by_offset = dict(zip(letters["offset"].to_pylist(), letters["value"].to_pylist(), strict=True))
    assert by_offset == dict(enumerate(bad, start=1)) | dict(enumerate(wide, start=10_002))

    done = replay_dead_letters(
        spark,
        open_table("db.t", tmp_path / "lake"),
        checkpoint_location=tmp_path / "replay",
        where="reason LIKE '%\\'added\\'%'",
        merge_schema=True,
    )

    assert (done.letters, done.accepted, done.dead) == (10, 10, 0)
    replayed = open_table("db.t", tmp_path / "lake")
    assert sorted(replayed.to_arrow()["added"].drop_null().to_pylist()) == list(range(2_000, 2_010))
    assert open_table("db.t_dead_letters", tmp_path / "lake").count() == 10_000
    check_log_equals_files(replayed)


def test_a_bad_record_ends_the_query_and_writes_nothing(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = new_topic(bootstrap_servers)
    fill(topic, [(None, order(1)), (None, b"{"), (None, order(2))])
    table = table_of(tmp_path, bootstrap_servers, SMALL, {})

    with pytest.raises(StreamingQueryException) as ended:
        run(spark, topic, table, tmp_path)

    error = error_of(ended.value)
    assert isinstance(error, CorruptDataError)
    assert "partition 0, offset 1: not a JSON record" in str(error)
    assert table.snapshot() is None

    run(spark, topic, table, tmp_path, on_error="skip")
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_new_columns_are_added_before_their_rows(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    topic = new_topic(bootstrap_servers, partitions=2)
    fill(topic, [(None, order(1)), (None, order(2, added="x"))], partition=0)
    fill(topic, [(None, order(3, added="y", flag=True, secret=1))], partition=1)
    table = table_of(tmp_path, bootstrap_servers, SMALL, {"bucket": "2"})

    run(spark, topic, table, tmp_path, merge_schema=True, ignore_columns="secret")

    found = open_table("db.t", tmp_path / "lake")
    rows = sorted(found.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["added"], row["flag"]) for row in rows] == [(None, None), ("x", None), ("y", True)]
    assert found.schema.field_names == ("id", "name", "amount", "at", "added", "flag")
    newest = found.store.snapshots.latest()
    assert newest is not None
    (checksum,) = (one for batch in batches_of(newest) for one in batch.lineage.fields)
    document = find_document(found.store, checksum)
    assert document is not None
    assert {(one.name, *(edge.source.name for edge in one.edges)) for one in document.lineage.fields} == {
        (name, name) for name in found.schema.field_names
    }
    assert document.lineage.sources() == [Dataset(f"kafka://{bootstrap_servers}", topic.name)]


@pytest.mark.full
def test_an_unchanged_value_is_taken_from_the_table_or_is_a_letter(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    mark = "__debezium_unavailable_value"
    topic = new_topic(bootstrap_servers)
    table = table_of(tmp_path, bootstrap_servers, SMALL, {"bucket": "2"})
    fill(topic, [(None, order(1)), (None, order(2))])
    run(spark, topic, table, tmp_path, on_error="dead-letter")
    changed = [{"id": key, "name": mark, "amount": 5} for key in (1, 3)]
    values = [json.dumps({"before": None, "after": row, "source": {}, "op": "u"}).encode() for row in changed]
    fill(topic, [(None, value) for value in values])

    run(spark, topic, table, tmp_path, on_error="dead-letter")

    rows = sorted((row["id"], row["name"], row["amount"]) for row in table.to_arrow().to_pylist())
    assert rows == [(1, "name 1", 5), (2, "name 2", None)]
    letters = open_table("db.t_dead_letters", tmp_path / "lake").to_arrow().to_pylist()
    assert [(row["offset"], row["value"]) for row in letters] == [(3, values[1])]


@pytest.mark.full
def test_a_topic_that_is_made_again_is_refused(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    topic = new_topic(bootstrap_servers)
    fill(topic, [(None, order(1))])
    table = table_of(tmp_path, bootstrap_servers, SMALL, {})
    run(spark, topic, table, tmp_path)
    delete_topic(topic)
    new_topic(bootstrap_servers, name=topic.name)

    with pytest.raises(StreamingQueryException) as ended:
        run(spark, topic, table, tmp_path)

    assert "was deleted and created again" in str(error_of(ended.value))


@pytest.mark.full
def test_the_checkpoint_of_another_table_is_refused_before_a_letter_is_written(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Before the query starts; and where an older version has put no name, before anything of the batch is written."""
    topic = new_topic(bootstrap_servers)
    fill(topic, [(None, order(1))])
    table = table_of(tmp_path, bootstrap_servers, SMALL, {"bucket": "1"})
    other = Catalog(tmp_path / "lake").create_table("db.u", schema=DDL, primary_keys=["id"])
    run(spark, topic, table, tmp_path, on_error="dead-letter")
    fill(topic, [(None, order(2, added=1)), (None, b"{")])
    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.t .*writes table db\.u"):
        run(spark, topic, other, tmp_path, on_error="dead-letter")

    (tmp_path / "checkpoint" / "lakelog-table.json").unlink()
    with pytest.raises(StreamingQueryException) as refused:
        run(spark, topic, other, tmp_path, on_error="dead-letter", merge_schema=True)
    ours = error_of(refused.value)
    assert isinstance(ours, InvalidRequestError)
    assert "does not say which table it belongs to" in str(ours)
    assert open_table("db.u_dead_letters", tmp_path / "lake").count() == 0
    assert open_table(other.path).schema.field_names == other.schema.field_names

    run(spark, topic, table, tmp_path, on_error="dead-letter", merge_schema=True)
    assert sorted(open_table(table.path).to_arrow()["id"].to_pylist()) == [1, 2]


def test_what_does_not_fit_is_refused_before_anything_starts(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = new_topic(bootstrap_servers)
    table = table_of(tmp_path, bootstrap_servers, SMALL, {})

    refused: list[tuple[dict[str, Any], str]] = [
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"starting_offsets": "first"}, "starting_offsets is 'first'"),
        ({"max_record_bytes": "many"}, "max_record_bytes is 'many'"),
        ({"value_format": "avro"}, "value_format is 'avro'"),
        ({"dead_letter_table": "db.letters"}, "goes with on_error='dead-letter'"),
        ({"on_error": "dead-letter", "dead_letter_table": "db.t"}, "cannot hold its own dead letters"),
        ({"kafka": {"group.id": "mine"}}, "belongs to lakelog itself"),
    ]
    for options, found in refused:
        with pytest.raises(InvalidRequestError, match=found):
            run(spark, topic, table, tmp_path, **options)
    with pytest.raises(NotFoundError):
        run(spark, KafkaTopic(client_config=topic.client_config, name="no.such.topic"), table, tmp_path)


NESTED = f"{DDL}, s STRUCT<p: BIGINT>, items ARRAY<STRUCT<n: INT>>"


@pytest.mark.full
def test_nested_documents_grow_with_the_records(spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """One record with a member that the table does not know ended every run of an ingest."""
    topic = new_topic(bootstrap_servers)
    old = [order(number, s={"p": number}, items=[{"n": number}]) for number in range(200)]
    grown = [order(number, s={"p": 1, "new": number}, items=[{"n": 1, "tag": "x"}]) for number in range(200, 203)]
    fill(topic, [(None, value) for value in [*old, *grown]])
    table = table_of(tmp_path, bootstrap_servers, Fixture(name="", ddl=NESTED, keys=("id",)), LOG)

    run(spark, topic, table, tmp_path, on_error="dead-letter")

    assert table.count() == 200
    letters = open_table("db.t_dead_letters", tmp_path / "lake").to_arrow(columns=["offset", "reason"])
    assert sorted(letters["offset"].to_pylist()) == [200, 201, 202]
    assert all(reason.startswith("unknown member 's.new'") for reason in letters["reason"].to_pylist())

    done = replay_dead_letters(spark, table, checkpoint_location=tmp_path / "replay", merge_schema=True)

    assert (done.letters, done.accepted, done.dead) == (3, 3, 0)
    found = open_table("db.t", tmp_path / "lake")
    rows = {row["id"]: row for row in found.to_arrow().to_pylist()}
    assert rows[5]["s"] == {"p": 5, "new": None}
    assert rows[201]["s"] == {"p": 1, "new": 201}
    assert rows[201]["items"] == [{"n": 1, "tag": "x"}]
    check_log_equals_files(found)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.full)])
def test_no_record_ends_an_ingest(count: int, spark: SparkSession, bootstrap_servers: str, tmp_path: Path) -> None:
    """Records that were changed at random, into a table with a log: each is taken in or a letter."""
    topic = new_topic(bootstrap_servers)
    values = list(mutated(count, ROW, seed=37))
    fill(topic, [(None, value) for value in values])
    table = table_of(tmp_path, bootstrap_servers, Fixture(name="", ddl=MUTATED_DDL, keys=("id",)), LOG)

    run(spark, topic, table, tmp_path, on_error="dead-letter", merge_schema=True, max_offsets_per_trigger=5_000)

    found = open_table("db.t", tmp_path / "lake")
    letters = open_table("db.t_dead_letters", tmp_path / "lake").to_arrow(columns=["offset", "value"])
    assert 0 < len(letters) < count
    by_offset = dict(zip(letters["offset"].to_pylist(), letters["value"].to_pylist(), strict=True))
    assert all(values[offset] == value for offset, value in by_offset.items())
    assert found.count() > 0
    check_log_equals_files(found)
