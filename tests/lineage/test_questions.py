"""Which snapshots made a snapshot, and what was made from it, over real tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.origins.record import ForeignSource, ReadMode
from lakelog.lineage.answers.questions import ANSWER_SCHEMA, downstream, lineage_graph, upstream
from tests.support.lineage.lineage_jobs import StreamJob, commit_rows, read_of


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def make(catalog: Catalog, name: str) -> Table:
    options = {"bucket": "1", "write-only": "true"}
    return catalog.create_table(name, schema=pa.schema({"id": pa.int64()}), options=options)


def grow(table: Table) -> None:
    table.write(pa.table({"id": pa.array([1], pa.int64())}))


def found(answer: pa.Table) -> list[tuple[object, ...]]:
    """Depth, sink and source of each row, the source with the range that was read."""
    assert answer.schema == ANSWER_SCHEMA
    names = ["depth", "sink_table", "sink_snapshot", "source_table", "source_from", "source_to"]
    return [tuple(row.values()) for row in answer.select(names).to_pylist()]


def chain(catalog: Catalog) -> tuple[Table, Table, Table]:
    """A table from a source, and one from that; two snapshots of the source are one of the last table."""
    source, middle, last = (make(catalog, f"db.{name}") for name in ("s", "m", "l"))
    first, second = StreamJob(middle, [source], user="first"), StreamJob(last, [middle], user="second")
    for _ in range(2):
        grow(source)
        first.run()
    second.run()
    grow(source)
    first.run()
    second.run()
    return source, middle, last


def test_a_snapshot_was_made_from_those_that_its_batch_read_and_these_from_others(catalog: Catalog) -> None:
    chain(catalog)

    assert found(upstream(catalog, "db.l", 1)) == [
        (1, "db.l", 1, "db.m", None, 2),
        (2, "db.m", 1, "db.s", None, 1),
        (2, "db.m", 2, "db.s", 1, 2),
    ]
    assert found(upstream(catalog, "db.l", 2, depth=1)) == [(1, "db.l", 2, "db.m", 2, 3)]
    assert found(upstream(catalog, "db.s", 1)) == []


def test_from_a_snapshot_was_made_what_read_it_and_what_read_that(catalog: Catalog) -> None:
    chain(catalog)

    graph = lineage_graph(catalog)
    assert found(downstream(catalog, "db.s", 2, graph=graph)) == [
        (1, "db.m", 2, "db.s", 1, 2),
        (2, "db.l", 1, "db.m", None, 2),
    ]
    assert found(downstream(catalog, "db.s", 3, depth=1, graph=graph)) == [(1, "db.m", 3, "db.s", 2, 3)]


def test_a_compaction_was_made_from_what_the_snapshot_before_was(catalog: Catalog) -> None:
    _, middle, _ = chain(catalog)
    middle.compact(full=True)
    assert middle.snapshot() is not None

    assert found(upstream(catalog, "db.m", 4)) == [(1, "db.m", 3, "db.s", 2, 3)]


def test_a_batch_write_was_made_from_a_whole_state(catalog: Catalog) -> None:
    source, middle, _ = chain(catalog)
    report = make(catalog, "db.report")
    side = read_of(middle, end=2, mode=ReadMode.BATCH)
    commit_rows(report, pa.table({"id": pa.array([1], pa.int64())}), side, user="statement", batch=None)

    assert [row[:3] for row in found(upstream(catalog, "db.report", 1))] == [
        (1, "db.report", 1),
        (2, "db.m", 1),
        (2, "db.m", 2),
    ]
    assert (2, "db.report", 1, "db.m", None, 2) in found(downstream(catalog, str(source.identifier), 1))


def test_offsets_of_a_foreign_source_are_in_the_answer(catalog: Catalog) -> None:
    source = make(catalog, "db.s")
    kafka = ForeignSource(format="kafka", name="orders", start="{}", end="{1}")
    commit_rows(source, pa.table({"id": pa.array([1], pa.int64())}), kafka)

    answer = upstream(catalog, "db.s", 1)

    assert answer.select(["source_kind", "source_table", "foreign_to"]).to_pylist() == [
        {"source_kind": "foreign", "source_table": "kafka:orders", "foreign_to": "{1}"}
    ]


def test_questions_go_across_catalogs(catalog: Catalog, tmp_path: Path) -> None:
    other = Catalog(tmp_path / "other")
    source, sink = make(catalog, "db.s"), make(other, "db.t")
    grow(source)
    StreamJob(sink, [source], user="job").run()

    assert found(downstream(catalog, "db.s", 1)) == []
    assert found(downstream(catalog, "db.s", 1, catalogs=[other])) == [(1, "db.t", 1, "db.s", None, 1)]
    assert found(upstream(other, "db.t", 1, catalogs=[catalog])) == [(1, "db.t", 1, "db.s", None, 1)]


def test_a_number_that_was_given_again_is_another_snapshot(catalog: Catalog) -> None:
    source, sink, later = (make(catalog, f"db.{name}") for name in ("s", "t", "u"))
    grow(source)
    grow(source)
    before = source.store.snapshots.get(2).uuid
    StreamJob(sink, [source], user="job").run()
    source.upkeep.rollback(snapshot_id=1, force=True)
    grow(source)
    StreamJob(later, [source], user="job").run()

    assert [row[1] for row in found(downstream(catalog, "db.s", 2))] == ["db.u"]
    assert [row[1] for row in found(downstream(catalog, "db.s", 2, commit=before))] == ["db.t"]


def test_a_dropped_source_is_known_by_its_name(catalog: Catalog) -> None:
    source, _, _ = chain(catalog)
    catalog.drop_table(str(source.identifier))

    assert len(downstream(catalog, "db.s", 3)) == 2


def test_a_snapshot_that_no_lineage_names_is_an_error(catalog: Catalog) -> None:
    chain(catalog)

    with pytest.raises(NotFoundError, match=r"snapshot 77 of db\.l does not exist, and no lineage names it"):
        upstream(catalog, "db.l", 77)
    with pytest.raises(NotFoundError, match=r"table db\.nothing is in none of the catalogs"):
        upstream(catalog, "db.nothing", 1)
