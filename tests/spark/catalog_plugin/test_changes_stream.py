"""`spark.readStream.changes` gives the rows that CHANGES gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: the values of a row

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import TableSource, TableVersion, batches_of
from lakelog.spark import LakelogSink
from tests.support.examples import rest_in_full

Rows = list[tuple[Any, ...]]
COMMITS = (
    "INSERT INTO lake.db.t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    "UPDATE lake.db.t SET n = n + 10 WHERE id < 3",
    "DELETE FROM lake.db.t WHERE id = 3",
    "CALL lake.sys.compact(table => 'db.t')",
    "INSERT OVERWRITE lake.db.t VALUES (2, 'B', 20), (4, 'd', 4)",
    "INSERT INTO lake.db.t VALUES (4, 'D', 4), (5, 'e', 5)",
)
KEYED = "(id BIGINT NOT NULL, v STRING, n INT, PRIMARY KEY (id))"
pytestmark = pytest.mark.integration


def run(rows: DataFrame, folder: Path) -> Rows:
    """What a query gives that reads all there is, from its checkpoint on."""
    found: Rows = []

    def keep(batch: DataFrame, _number: int) -> None:
        found.extend(tuple(row) for row in batch.collect())

    writer = rows.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query = writer.foreachBatch(keep).start()
    assert query.awaitTermination(120) is not False
    return sorted(found, key=repr)


def batch(session: SparkSession, words: str, columns: str = "*") -> Rows:
    rows = session.sql(f"SELECT {columns} FROM lake.db.t CHANGES FROM {words}").collect()
    return sorted((tuple(row) for row in rows), key=repr)


def stream(session: SparkSession, **options: object) -> DataFrame:
    reader: DataStreamReader = session.readStream
    for key, value in options.items():
        reader = reader.option(key, str(value))
    return reader.changes("lake.db.t")


def fill(session: SparkSession, columns: str = KEYED, *, options: str = "") -> None:
    session.sql(f"CREATE TABLE lake.db.t {columns} {options}")
    for statement in COMMITS:
        session.sql(statement)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        pytest.param(KEYED, "", marks=pytest.mark.full),
        (KEYED, "TBLPROPERTIES ('changelog-producer' = 'lookup')"),
        pytest.param("(id BIGINT, v STRING, n INT)", "", marks=pytest.mark.full),
    ],
    ids=["keyed", "lookup", "append"],
)
def test_a_stream_gives_the_changes_that_a_batch_gives(
    session: SparkSession, tmp_path: Path, columns: str, options: str
) -> None:
    fill(session, columns, options=options)
    expected = batch(session, "VERSION 1")
    kinds = {row[3] for row in expected}
    assert {"insert", "delete"} <= kinds
    assert run(stream(session), tmp_path / "all") == expected
    assert run(stream(session, startingVersion=1), tmp_path / "one") == expected


@pytest.mark.full
def test_a_stream_starts_where_it_is_told_to(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    session.sql("CALL lake.sys.create_tag(table => 'db.t', tag => 'three', snapshot => 3)")
    times = {row[5] for row in batch(session, "VERSION 5 TO VERSION 5")}
    (at,) = times
    starts: list[tuple[dict[str, object], str]] = [
        ({"startingVersion": 2}, "VERSION 2"),
        ({"startingVersion": 2, "startingBoundInclusive": "false"}, "VERSION 2 EXCLUSIVE"),
        ({"startingVersion": "three"}, "VERSION 'three'"),
        ({"startingTimestamp": at}, f"TIMESTAMP '{at}'"),
    ]
    for number, (options, words) in enumerate(starts):
        found = run(stream(session, **options), tmp_path / f"checkpoint-{number}")
        assert found == batch(session, words), words
        assert found, words


@pytest.mark.full
def test_columns_and_conditions_choose_from_all_changes(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    rows = stream(session).where("_change_type <> 'insert' AND id < 3").select("_commit_version", "v")
    expected = batch(session, "VERSION 1 WHERE _change_type <> 'insert' AND id < 3", "_commit_version, v")
    assert run(rows, tmp_path / "chosen") == expected
    assert expected
    where = stream(session, where="id = 2")
    assert run(where, tmp_path / "where") == batch(session, "VERSION 1 WHERE id = 2")


def test_a_query_that_goes_on_from_its_checkpoint_gives_each_change_once(session: SparkSession, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE lake.db.t {KEYED}")
    found: Rows = []
    for statement in COMMITS:
        session.sql(statement)
        found += run(stream(session, startingVersion=1), tmp_path / "checkpoint")
    assert sorted(found, key=repr) == batch(session, "VERSION 1")
    assert run(stream(session, startingVersion=1), tmp_path / "checkpoint") == []


@pytest.mark.full
@pytest.mark.parametrize("is_available_now", rest_in_full([True, False], 1))
@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ("", KEYED),
        pytest.param("TBLPROPERTIES ('changelog-producer' = 'lookup')", KEYED, marks=pytest.mark.full),
        pytest.param("", "(id BIGINT, v STRING, n INT)", marks=pytest.mark.full),
    ],
    ids=["keyed", "lookup", "append"],
)
def test_batches_are_whole_commits_within_the_limit(
    session: SparkSession, tmp_path: Path, options: str, columns: str, is_available_now: bool
) -> None:
    session.sql(f"CREATE TABLE lake.db.t {columns} {options}")
    for number in range(0, 12, 2):
        session.sql(f"INSERT INTO lake.db.t VALUES ({number}, 'a', 1), ({number + 1}, 'b', 2)")
    expected = batch(session, "VERSION 1")
    commits = sorted({row[4] for row in expected})
    assert len(commits) == 6
    for most, per_batch in ((1, 1), (5, 2), (100, 6)):
        found = batches(stream(session, maxRowsPerTrigger=most), tmp_path / str(most), is_available_now)
        assert sorted((row for rows in found for row in rows), key=repr) == expected
        given = [sorted({row[4] for row in rows}) for rows in found]
        assert given == [commits[at : at + per_batch] for at in range(0, 6, per_batch)]
    found = batches(stream(session, maxBytesPerTrigger="1 b"), tmp_path / "bytes", is_available_now)
    assert [sorted({row[4] for row in rows}) for rows in found] == [[one] for one in commits]


def batches(rows: DataFrame, folder: Path, is_available_now: bool) -> list[Rows]:
    """The batches with rows of a query that reads all there is."""
    found: list[Rows] = []

    def keep(batch: DataFrame, _number: int) -> None:
        given = [tuple(row) for row in batch.collect()]
        if given:
            found.append(given)

    writer = rows.writeStream.option("checkpointLocation", str(folder)).foreachBatch(keep)
    query = (writer.trigger(availableNow=True) if is_available_now else writer).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return found


@pytest.mark.full
def test_a_limited_stream_ends_at_what_existed_when_it_began(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    expected = batch(session, "VERSION 1")
    found: Rows = []

    def keep(batch: DataFrame, number: int) -> None:
        given = [tuple(row) for row in batch.collect()]
        found.extend(given)
        if given:
            session.sql(f"INSERT INTO lake.db.t VALUES ({100 + number}, 'late', 0)")

    rows = stream(session, maxRowsPerTrigger=1)
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert writer.foreachBatch(keep).start().awaitTermination(120) is not False
    assert sorted(found, key=repr) == expected
    assert run(stream(session, maxRowsPerTrigger=1), tmp_path / "c") == batch(session, "VERSION 7")


@pytest.mark.full
def test_a_batch_that_failed_is_read_again(session: SparkSession, tmp_path: Path) -> None:
    fill(session)

    def fail(batch: DataFrame, number: int) -> None:
        if batch.count():
            raise RuntimeError(f"batch {number} stops here")

    rows = stream(session)
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(fail)
    with pytest.raises(Exception, match="stops here"):
        writer.trigger(availableNow=True).start().awaitTermination(120)
    session.sql("INSERT INTO lake.db.t VALUES (9, 'z', 9)")
    assert run(stream(session), tmp_path / "checkpoint") == batch(session, "VERSION 1")


@pytest.mark.full
def test_a_stream_that_runs_gives_the_changes_of_new_commits(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    rows = stream(session, startingVersion=6)
    query = rows.writeStream.format("memory").queryName("running").option("checkpointLocation", str(tmp_path / "c"))
    started = query.start()
    try:
        started.processAllAvailable()
        session.sql("DELETE FROM lake.db.t WHERE id = 5")
        started.processAllAvailable()
        found = sorted((tuple(row) for row in session.table("running").collect()), key=repr)
        assert found == batch(session, "VERSION 6")
        assert {row[4] for row in found} == {6, 7}
    finally:
        started.stop()


@pytest.mark.full
def test_what_a_stream_writes_names_the_table_and_its_snapshots(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    session.sql("CREATE TABLE lake.db.kinds (id BIGINT, kind STRING)")
    rows = stream(session, startingVersion=3).selectExpr("id", "_change_type AS kind")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    sink = LakelogSink(str(tmp_path / "lake" / "db.db" / "kinds"))
    assert writer.foreachBatch(sink).start().awaitTermination(120) is not False
    snapshot = Catalog(tmp_path / "lake").load_table("db.kinds").snapshot()
    assert snapshot is not None
    (source,) = (source for one in batches_of(snapshot) for source in one.lineage.sources)
    assert isinstance(source, TableSource)
    assert source.table == "db.t"
    assert isinstance(source.start, TableVersion)
    assert isinstance(source.end, TableVersion)
    assert (source.start.snapshot_id, source.end.snapshot_id, source.is_exact) == (2, 6, True)


def table_of(tmp_path: Path) -> Table:
    return Catalog(tmp_path / "lake").load_table("db.t")


@pytest.mark.full
def test_a_start_that_has_expired_has_the_error_of_a_batch(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    first = run(stream(session), tmp_path / "goes on")
    time = session.sql("SELECT min(_commit_timestamp) FROM lake.db.t CHANGES FROM VERSION 1").collect()[0][0]
    assert run(stream(session, startingTimestamp=time), tmp_path / "of a time") == first
    table = table_of(tmp_path)
    assert {one.next_snapshot for one in table.consumers.list()} == {6}, "each run keeps what comes behind it"
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    sentence = r"the changes of snapshot 1 of table db\.t do not exist; those of snapshots 6 to 6 do"
    with pytest.raises(Exception, match=sentence):
        batch(session, "VERSION 1")
    with pytest.raises(Exception, match=sentence):
        run(stream(session, startingVersion=1), tmp_path / "new")
    session.sql("INSERT INTO lake.db.t VALUES (9, 'z', 9)")
    # Without a start the stream begins with what exists; streams that go on do not need their start any more.
    expected = batch(session, "VERSION 7")
    assert [row[:4] for row in expected] == [(9, "z", 9, "insert")]
    assert run(stream(session), tmp_path / "oldest") == expected
    assert run(stream(session), tmp_path / "goes on") == expected
    assert run(stream(session, startingTimestamp=time), tmp_path / "of a time") == expected


@pytest.mark.full
def test_a_stream_ends_at_a_table_that_was_rolled_back(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    run(stream(session), tmp_path / "checkpoint")
    session.sql("CALL lake.sys.rollback(table => 'db.t', snapshot => 5, force => true)")
    for _ in range(2):
        with pytest.raises(Exception, match=r"(is not the one that|up to snapshot 6)"):
            run(stream(session), tmp_path / "checkpoint")
        session.sql("INSERT INTO lake.db.t VALUES (9, 'z', 9)")


@pytest.mark.full
def test_what_a_stream_cannot_do_is_said(session: SparkSession, tmp_path: Path) -> None:
    fill(session)
    with pytest.raises(Exception, match=r"a stream has no end|netChanges"):
        run(stream(session, deduplicationMode="netChanges", startingVersion=1), tmp_path / "net")
    with pytest.raises(Exception, match="CHANGES of a table does not take consumer-id: beside the start"):
        run(stream(session, **{"consumer-id": "c"}), tmp_path / "consumer")
    with pytest.raises(Exception, match=r"maxRowsPerTrigger"):
        run(stream(session, maxRowsPerTrigger=0), tmp_path / "limit")
    with pytest.raises(Exception, match=r"endingVersion|has no end"):
        run(stream(session, startingVersion=1, endingVersion=2), tmp_path / "end")
    with pytest.raises(Exception, match=r"has no version 98; its newest is 6"):
        run(stream(session, startingVersion=99), tmp_path / "future")


@pytest.mark.full
def test_a_table_with_a_log_gives_the_changes_of_its_snapshots(
    session: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    fill(session, options=f"TBLPROPERTIES ('log.system'='kafka', 'log.kafka.bootstrap.servers'='{bootstrap_servers}')")
    expected = batch(session, "VERSION 1")
    assert {row[3] for row in expected} >= {"insert", "delete"}
    assert run(stream(session), tmp_path / "checkpoint") == expected
