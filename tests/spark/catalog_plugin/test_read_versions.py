"""Spark loads a changed table again for each run of a plan: commits name the snapshots that were read then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.filestore.metadata.origins.record import TableSource, TableVersion, batches_of
from lakelog.spark import LakelogSink, merge, write, write_stream
from lakelog.spark.projection import Projector

pytestmark = pytest.mark.integration

KEYED = "(id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)) TBLPROPERTIES ('bucket' = '2', 'write-only' = 'true')"
WITHOUT_KEY = "(id BIGINT, v STRING)"
DIM = "lake.db.dim"


def make(session: SparkSession, columns: str = KEYED) -> DataFrame:
    """The empty table t, and a DataFrame of dim, whose first snapshot has the row 1."""
    session.sql(f"CREATE TABLE lake.db.t {columns}")
    session.sql(f"CREATE TABLE {DIM} {KEYED}")
    session.sql(f"INSERT INTO {DIM} VALUES (1, 'first')")
    return session.table(DIM)


def change(session: SparkSession) -> None:
    session.sql(f"INSERT INTO {DIM} VALUES (1, 'second')")


def values(session: SparkSession) -> set[str]:
    return {row.v for row in session.table("lake.db.t").collect()}


def sources_of(tmp_path: Path, name: str) -> set[tuple[str, int | None]]:
    """The tables and snapshots that the newest commit of a table was made from, without the files of its stream."""
    snapshot = Catalog(tmp_path / "lake").load_table(name).snapshot()
    assert snapshot is not None
    found = [one for batch in batches_of(snapshot) for one in batch.lineage.sources if isinstance(one, TableSource)]
    return {(one.table, one.end.snapshot_id if isinstance(one.end, TableVersion) else None) for one in found}


def changes_in(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text('{"id": 1}')


def stream_of(session: SparkSession, folder: Path) -> DataFrame:
    changes_in(folder, 0)
    return session.readStream.schema("id BIGINT").json(str(folder))


@pytest.mark.parametrize("columns", [KEYED, WITHOUT_KEY], ids=["tasks", "driver"])
def test_a_merge_names_the_snapshot_that_it_has_read(session: SparkSession, tmp_path: Path, columns: str) -> None:
    begun = merge(make(session, columns), "db.t", on="id", catalog=Catalog(tmp_path / "lake"))
    change(session)
    begun.when_matched_update_all().when_not_matched_insert_all().execute()
    assert values(session) == {"second"}
    assert sources_of(tmp_path, "db.t") == {("db.dim", 2)}


@pytest.mark.parametrize("log", [False, True], ids=["files", "log"])
def test_a_write_names_the_snapshot_that_it_has_read(session: SparkSession, tmp_path: Path, log: bool) -> None:
    rows = make(session, KEYED.replace("'write-only'", "'log.system' = 'kafka', 'write-only'") if log else KEYED)
    rows.collect()
    change(session)
    write(rows.where("id > 0"), "db.t", catalog=Catalog(tmp_path / "lake"))
    assert values(session) == {"second"}
    assert sources_of(tmp_path, "db.t") == {("db.dim", 2)}


def test_declared_sources_stay_as_they_are(session: SparkSession, tmp_path: Path) -> None:
    rows = make(session)
    change(session)
    write(rows, "db.t", catalog=Catalog(tmp_path / "lake"), sources=["db.dim@1"])
    assert sources_of(tmp_path, "db.t") == {("db.dim", 1)}


def test_each_batch_names_the_snapshot_of_the_table_that_its_stream_is_joined_to(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = stream_of(session, tmp_path / "in").join(make(session), "id")
    query = write_stream(rows, "db.t", catalog=Catalog(tmp_path / "lake"), checkpoint_location=tmp_path / "c")
    try:
        query.processAllAvailable()
        assert sources_of(tmp_path, "db.t") == {("db.dim", 1)}
        change(session)
        changes_in(tmp_path / "in", 1)
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(session) == {"second"}
    assert sources_of(tmp_path, "db.t") == {("db.dim", 2)}


@pytest.mark.parametrize("changes", [1, 20], ids=["once", "each time"])
def test_a_batch_names_the_snapshot_of_a_table_that_changes_while_it_is_planned(
    session: SparkSession, tmp_path: Path, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dim, sink = make(session), LakelogSink("db.t", catalog=Catalog(tmp_path / "lake"))
    left = [changes]
    project: Callable[..., DataFrame] = Projector.project

    def projected(self: Projector, rows: DataFrame, *given: object, **named: object) -> DataFrame:
        """As the sink calls it behind the record of the batch."""
        if left[0]:
            left[0] -= 1
            change(session)
        return project(self, rows, *given, **named)

    monkeypatch.setattr(Projector, "project", projected)
    query = (
        stream_of(session, tmp_path / "in")
        .writeStream.foreachBatch(lambda rows, batch_id: sink(rows.join(dim, "id"), batch_id))
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(session) == {"second"}
    assert sources_of(tmp_path, "db.t") == {("db.dim", 2 if changes == 1 else None)}
