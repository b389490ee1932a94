"""Questions of users about fields: up, down, impact, and the answers as tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, RenameColumn, Table
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.lineage import field_index, fields, impact
from lakelog.lineage.answers.catalog_fields import split_name
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.questions.dataset_graph import FieldGraph
from lakelog.lineage.columns.questions.field_answer import FIELD_EDGE_SCHEMA
from lakelog.lineage.columns.questions.field_index import build_index
from lakelog.lineage.columns.questions.field_questions import Asked, asked, edges_answer, graph_answer, impact_answer
from lakelog.lineage.columns.questions.periods import period_at
from lakelog.lineage.page import saved_page
from tests.support.lineage.field_tables import make_table, write_fields
from tests.support.lineage.known_world import KnownWorld, dataset_of


def question(world: KnownWorld, name: str, **how: object) -> tuple[object, Asked]:
    index = build_index(world.known())
    owner, _, field = name.rpartition(".")
    dataset, one = asked(index, dataset_of(owner), field)
    return index, Asked(dataset=dataset, field=one, **how)  # type: ignore[arg-type]  # by name


def answer(world: KnownWorld, name: str, **how: object) -> list[dict[str, object]]:
    index, wanted = question(world, name, **how)
    rows: list[dict[str, object]] = edges_answer(index, wanted).to_arrow().to_pylist()  # type: ignore[arg-type]
    return rows


def graph(world: KnownWorld, name: str, limit: int = 60, **how: object) -> FieldGraph:
    index, wanted = question(world, name, **how)
    return graph_answer(index, wanted, limit=limit)  # type: ignore[arg-type]


@pytest.fixture
def world() -> KnownWorld:
    return KnownWorld().table("db.s", "v", "day").table("db.t", "total", "note").table("db.u", "x")


def test_a_row_has_all_that_is_known_of_an_edge(world: KnownWorld) -> None:
    checksum = world.write(
        "db.t",
        {"total": [("db.s.v", "AGGREGATION"), ("db.s.v", "CONDITIONAL")], "note": []},
        sql={"total": "sum(if(v > 0, v, 0))"},
        opaque=["total"],
        is_approximate=True,
        operation="MERGE",
        batches=(3, 9),
        snapshots=(4, 10),
        job="nightly",
    )

    rows = answer(world, "db.t.total")

    assert [(row["type"], row["kinds"]) for row in rows] == [
        ("DIRECT", ["AGGREGATION"]),
        ("INDIRECT", ["CONDITIONAL"]),
    ]
    run = {"run": "run", "query": "query of nightly", "first_batch": 3, "last_batch": 9}
    times = {
        "first_time": datetime(2023, 11, 14, 22, 17, 20, tzinfo=UTC),
        "last_time": datetime(2023, 11, 14, 22, 23, 20, tzinfo=UTC),
    }
    assert rows[0] == {
        "direction": "up",
        "depth": 1,
        "source_namespace": "db",
        "source_dataset": "s",
        "source_field": "v",
        "source_paths": [],
        "target_namespace": "db",
        "target_dataset": "t",
        "target_field": "total",
        "type": "DIRECT",
        "kinds": ["AGGREGATION"],
        "masked": False,
        "approximate": True,
        "opaque": True,
        "operation": "MERGE",
        "sql": "sum(if(v > 0, v, 0))",
        "job": "nightly",
        "checksum": checksum,
        "runs": [run | {"first_snapshot": 4, "last_snapshot": 10} | times],
    }


def test_an_edge_for_all_fields_names_no_target(world: KnownWorld) -> None:
    world.write("db.t", {"total": []}, dataset=[("db.s.day", "FILTER", "masked")])

    [row] = answer(world, "db.t.total")

    assert (row["target_field"], row["kinds"], row["masked"], row["type"]) == (None, ["FILTER"], True, "INDIRECT")


def test_an_edge_is_masked_if_no_clear_value_goes_over_it(world: KnownWorld) -> None:
    world.write("db.t", {"total": [("db.s.v", "TRANSFORMATION", "masked")]})
    assert [row["masked"] for row in answer(world, "db.t.total")] == [True]

    world.write("db.t", {"total": [("db.s.v", "TRANSFORMATION", "masked"), "db.s.v"]}, run="other")
    assert sorted(str(row["masked"]) for row in answer(world, "db.t.total")) == ["False", "True"]


def test_two_jobs_that_write_the_same_are_two_rows_with_their_own_runs(world: KnownWorld) -> None:
    for job, run in (("a", "1"), ("a", "2"), ("b", "3")):
        world.write("db.t", {"total": ["db.s.v"]}, job=job, run=run)

    rows = answer(world, "db.t.total")

    found = {row["job"]: [run["run"] for run in row["runs"]] for row in rows}  # type: ignore[attr-defined]
    assert {job: sorted(runs) for job, runs in found.items()} == {"a": ["1", "2"], "b": ["3"]}


def test_a_snapshot_has_the_runs_that_made_it_though_others_made_the_same(world: KnownWorld) -> None:
    world.table("db.r", "v").write("db.s", {"v": ["db.r.v"]}, run="early", snapshots=(1, 1))
    world.write("db.s", {"v": ["db.r.v"]}, run="late", snapshots=(90, 90))
    for run, snapshots in (("1", (1, 4)), ("2", (5, 9)), ("3", (10, 12))):
        world.write("db.t", {"total": ["db.s.v"]}, run=run, snapshots=snapshots)
    index = build_index(world.known())
    dataset, field = asked(index, dataset_of("db.t"), "total")
    period = period_at(index, dataset, 7)

    rows = edges_answer(index, Asked(dataset=dataset, field=field, direction="up", period=period)).to_arrow()

    assert [[run["run"] for run in row["runs"]] for row in rows.to_pylist()] == [["2"], ["early"]]


def test_both_directions_come_with_the_nearest_first(world: KnownWorld) -> None:
    world.write("db.t", {"total": ["db.s.v"]})
    world.write("db.u", {"x": ["db.t.total"]})

    rows = answer(world, "db.t.total", direction="both")

    assert [(row["direction"], row["depth"]) for row in rows] == [("up", 1), ("down", 1)]


def test_an_answer_without_edges_has_its_columns(world: KnownWorld) -> None:
    index, wanted = question(world, "db.t.total")
    found = edges_answer(index, wanted)  # type: ignore[arg-type]

    assert (len(found), found.to_arrow().schema, found.to_polars().columns) == (
        0,
        FIELD_EDGE_SCHEMA,
        FIELD_EDGE_SCHEMA.names,
    )


def test_impact_has_each_field_with_its_hop_its_jobs_and_whether_a_value_reaches_it(world: KnownWorld) -> None:
    world.write("db.t", {"total": [("db.s.v", "AGGREGATION")], "note": [("db.s.v", "CONDITIONAL")]}, job="first")
    world.write("db.u", {"x": ["db.t.note", ("db.t.total", "TRANSFORMATION", "masked")]}, job="second")
    index, wanted = question(world, "db.s.v")

    rows = impact_answer(index, wanted).to_pylist()  # type: ignore[arg-type]

    assert [(row["field"], row["depth"], row["type"], row["kinds"], row["masked"], row["jobs"]) for row in rows] == [
        ("total", 1, "DIRECT", ["AGGREGATION"], False, ["first"]),
        ("note", 1, "INDIRECT", ["CONDITIONAL"], False, ["first"]),
        ("x", 2, "DIRECT", ["AGGREGATION", "CONDITIONAL"], True, ["second"]),
    ]


def test_the_graph_has_datasets_by_hop_and_what_lies_beyond_the_depth(world: KnownWorld) -> None:
    world.table("db.first", "y").table("db.last", "z")
    world.write("db.s", {"v": ["db.first.y"]})
    world.write("db.t", {"total": ["db.s.v"], "note": []}, dataset=[("db.s.day", "FILTER")])
    world.write("db.u", {"x": ["db.t.total"]})
    world.write("db.last", {"z": ["db.u.x"]})

    found = graph(world, "db.t.total", depth=1)

    assert [(one.dataset.name, one.hop, one.field_count, one.more_up, one.more_down) for one in found.datasets] == [
        ("t", 0, 2, False, False),
        ("s", -1, 2, True, False),
        ("u", 1, 1, False, True),
    ]
    assert [[each.name for each in one.fields] for one in found.datasets] == [["total"], ["v", "day"], ["x"]]
    assert [(one.source, one.source_field, one.target, one.target_field, one.is_direct) for one in found.edges] == [
        (1, "day", 0, None, False),
        (1, "v", 0, "total", True),
        (0, "total", 2, "x", True),
    ]


def test_beyond_a_graph_at_a_snapshot_is_not_what_made_other_snapshots(world: KnownWorld) -> None:
    world.write("db.t", {"total": ["db.s.v"]}, run="1", snapshots=(1, 1))
    world.write("db.t", {"total": []}, run="2", snapshots=(2, 2))
    index = build_index(world.known())
    dataset, field = asked(index, dataset_of("db.t"), "total")

    flags = []
    for snapshot in (1, 2):
        period = period_at(index, dataset, snapshot)
        question = Asked(dataset=dataset, field=field, direction="up", depth=1, period=period)
        root = graph_answer(index, question, limit=9).datasets[0]
        flags.append((root.more_up, [one.is_generated for one in root.fields]))

    assert flags == [(False, [False]), (False, [True])]


def test_a_field_that_is_made_from_nothing_is_generated_and_one_that_nobody_wrote_is_not(world: KnownWorld) -> None:
    world.write("db.t", {"total": ["db.s.v"], "note": []})
    world.write("db.u", {"x": ["db.t.note", "db.t.total"]})

    found = graph(world, "db.u.x", depth=5)

    flags = {each.name: each.is_generated for one in found.datasets for each in one.fields}
    assert flags == {"x": False, "total": False, "note": True, "v": False}


def test_a_graph_that_is_too_large_has_its_neighbours(world: KnownWorld) -> None:
    for at in range(5):
        world.table(f"db.n{at}", "a", "b").write(f"db.n{at}", {"a": ["db.s.v"], "b": ["db.s.v"]})

    found = graph(world, "db.s.v", limit=5)
    assert found.neighbours is not None
    assert (found.total, [one.dataset.name for one in found.datasets], found.edges) == (6, ["s"], ())
    assert {(one.dataset.name, one.hop, one.fields) for one in found.neighbours} == {
        (f"n{at}", 1, 2) for at in range(5)
    }

    assert graph(world, "db.s.v", limit=6).neighbours is None


class TestCatalogs:
    """Questions to tables that are there."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return Catalog(tmp_path / "lake")

    @pytest.fixture
    def tables(self, catalog: Catalog) -> tuple[Table, Table]:
        orders, report = make_table(catalog, "db.orders", "id", "amount"), make_table(catalog, "db.report", "total")
        write_fields(orders, {"id": [], "amount": []}, job="load")
        write_fields(report, {"total": [(orders, "amount", "AGGREGATION")]}, job="nightly")
        return orders, report

    def test_a_field_has_its_lineage_after_a_rename(self, catalog: Catalog, tables: tuple[Table, Table]) -> None:
        tables[0].alter(RenameColumn("amount", "dollars"))
        rows = fields(catalog, "db.report", "total").to_arrow().to_pylist()

        assert [(row["source_dataset"], row["source_field"], row["job"]) for row in rows] == [
            ("orders", "dollars", "nightly")
        ]

    def test_impact_names_what_breaks(self, catalog: Catalog, tables: tuple[Table, Table]) -> None:
        assert impact(catalog, "db.orders", "amount")["field"].to_pylist() == ["total"]
        assert impact(catalog, "db.orders", "id").num_rows == 0

    @pytest.mark.usefixtures("tables")
    @pytest.mark.usefixtures("tables")
    def test_a_notebook_shows_the_page_of_an_answer_in_a_frame(self, catalog: Catalog) -> None:
        answer = fields(catalog, "db.report", "total")
        frame = answer._repr_html_()

        assert frame is not None
        assert f'srcdoc="{escape(answer.to_html())}" sandbox="allow-scripts allow-downloads"' in frame

    def test_too_many_tables_have_no_page(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        orders = make_table(catalog, "db.orders", "amount")
        write_fields(make_table(catalog, "db.report", "total"), {"total": [(orders, "amount")]})
        monkeypatch.setattr(saved_page, "DATASETS_MAX", 1)
        answer = fields(catalog, "db.report", "total")

        assert answer._repr_html_() is None
        with pytest.raises(InvalidRequestError, match=r"a picture of 2 tables cannot be drawn, .* --depth"):
            answer.to_html()

    def test_a_snapshot_and_a_time_are_asked_for_one_at_a_time(
        self, catalog: Catalog, tables: tuple[Table, Table]
    ) -> None:
        index = field_index(catalog)

        assert len(fields(catalog, "db.report", "total", at=1, index=index)) == 1
        assert len(fields(catalog, "db.report", "total", start="2000-01-01", end="2001-01-01")) == 0
        assert len(fields(catalog, "db.report", "total", start="2000-01-01")) == 1
        with pytest.raises(InvalidRequestError, match="give one of them"):
            fields(catalog, "db.report", "total", at=1, start="2000-01-01")

    def test_lineage_leads_into_another_catalog(
        self, catalog: Catalog, tables: tuple[Table, Table], tmp_path: Path
    ) -> None:
        other = Catalog(tmp_path / "other")
        copy = make_table(other, "db.copy", "amount")
        write_fields(copy, {"amount": [(tables[0], "amount")]})

        found = impact(catalog, "db.orders", "amount", catalogs=[other])

        assert {(row["dataset"], row["field"]) for row in found.to_pylist()} == {
            ("report", "total"),
            ("copy", "amount"),
        }

    @pytest.mark.parametrize(
        ("call", "error", "text"),
        [
            ({"table": "db.nothing"}, NotFoundError, "no lineage of fields names 'db.nothing'; it names db.orders"),
            ({"table": "db.report", "field": "x"}, NotFoundError, "db.report has no field 'x'; it has total"),
            ({"table": "db.report", "direction": "sideways"}, InvalidRequestError, "expected up, down, both"),
            ({"table": "db.report", "depth": 0}, InvalidRequestError, "depth is 0; expected 1 or more"),
            ({"table": "db.report", "at": 0}, NotFoundError, "known for the snapshots from 1 to 1"),
            ({"table": 5}, InvalidRequestError, "the table is the int 5; expected a name such as"),
            ({"table": "db.report", "start": "soon"}, InvalidRequestError, "'soon' is not a timestamp"),
        ],
    )
    def test_an_error_says_what_was_expected(
        self,
        catalog: Catalog,
        tables: tuple[Table, Table],
        call: dict[str, object],
        error: type[Exception],
        text: str,
    ) -> None:
        with pytest.raises(error, match=text):
            fields(catalog, **call)  # type: ignore[arg-type]

    def test_impact_is_a_table_of_arrow(self, catalog: Catalog, tables: tuple[Table, Table]) -> None:
        assert isinstance(impact(catalog, "db.orders"), pa.Table)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("db.s", ("db", "s", None)),
        ("db.s.v", ("db", "s", "v")),
        ("db.s.a.b", ("db", "s", "a.b")),
        ("kafka://host:9092.events.v1.value", ("kafka://host:9092", "events.v1", "value")),
        ("kafka://host:9092.events.v1", ("kafka://host:9092", "events.v1", None)),
        ("db.s$branch_b.v", ("db", "s$branch_b", "v")),
    ],
)
def test_a_name_is_split_where_the_dataset_ends(text: str, found: tuple[str, str, str | None]) -> None:
    world = KnownWorld().table("db.s", "v", "a.b").table("db.s$branch_b", "v").table("db.t", "x")
    known = world.known()
    source = SourceField(Dataset("kafka://host:9092", "events.v1"), ("value",))
    document = FieldDocument(
        lineage=FieldLineage(fields=(OutputField(name="x", edges=frozenset([FieldEdge(source, EdgeKind.IDENTITY)])),))
    )
    world.write("db.t", {"x": []})
    run = replace(world.runs[0], checksum=document.checksum)
    index = build_index(replace(known, runs=[run], documents={document.checksum: document}))

    dataset, field = split_name(index, text)

    assert (dataset.namespace, dataset.name, field) == found
