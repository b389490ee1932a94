"""Events of other producers in the lineage of fields, and events that lakelog sends, taken in again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from demo.openlineage.importing import import_events
from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.lineage import made_from
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.openlineage.emitter import OpenLineageEmitter
from lakelog.lineage.tables.warehouse_lineage import known_fields

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path / "lake")
    for name in ("db.source", "db.target"):
        catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
        catalog.load_table(name).write(pa.table({"id": [1], "a": [2]}, schema=SCHEMA))
    return catalog


def event(kind: str, time: str, *, into: tuple[str, str], out_of: tuple[str, str], run: str = "r") -> str:
    step = {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "a + 1", "masking": False}
    read = {"namespace": out_of[0], "name": out_of[1], "field": "a", "transformations": [step]}
    facet = {"_producer": "p", "_schemaURL": "s", "fields": {"a": {"inputFields": [read]}}}
    return json.dumps(
        {
            "eventType": kind,
            "eventTime": time,
            "run": {"runId": run},
            "job": {"namespace": "etl", "name": "nightly"},
            "outputs": [{"namespace": into[0], "name": into[1], "facets": {"columnLineage": facet}}],
            "producer": "p",
            "schemaURL": "s",
        }
    )


def test_a_run_of_another_producer_is_known_and_marked(catalog: Catalog, tmp_path: Path) -> None:
    foreign, own = ("postgres://db:5432", "shop.orders"), ("file", catalog.load_table("db.source").path)
    lines = [
        event("START", "2026-01-01T00:00:00Z", into=foreign, out_of=own),
        event("COMPLETE", "2026-01-01T00:05:00Z", into=foreign, out_of=own),
        event("COMPLETE", "2026-01-02T00:00:00Z", into=foreign, out_of=own, run="other"),
    ]
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(lines))
    found = import_events(catalog, [path])
    assert (found.events, found.runs, found.programs) == (3, 2, 1)
    known = known_fields(catalog)
    first, second = known.runs
    assert first.sink == Dataset(*foreign)
    assert (first.job, first.is_foreign, first.last_millis - first.first_millis) == ("etl.nightly", True, 300_000)
    assert second.run_id == "other"
    (document,) = known.documents.values()
    assert [edge.source.dataset for edge in document.lineage.fields[0].edges] == [Dataset("db", "source")]
    assert [one.uuid for one in document.sources] == [catalog.load_table("db.source").store.uuid]
    import_events(catalog, [path])
    assert known_fields(catalog) == known


def test_a_line_that_is_no_event_stops_the_import_or_is_left_out(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = event("COMPLETE", "2026-01-01T00:00:00Z", into=("file", "/out"), out_of=("file", "/in"))
    path.write_text(f"{good}\nno event\n")
    with pytest.raises(InvalidRequestError, match="line 2"):
        import_events(catalog, [path])
    assert known_fields(catalog).runs == []
    errors: list[InvalidRequestError] = []
    assert import_events(catalog, [path], on_unreadable=errors.append).runs == 1
    assert len(errors) == 1


def test_what_lakelog_sends_is_what_it_takes_in(catalog: Catalog, tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    target = catalog.load_table("db.target")
    config = {"transport": {"type": "file", "log_file_path": str(path), "append": True}}
    emitter = OpenLineageEmitter(target, config=config)
    declared = made_from(target, "db.source@1", job="nightly", fields={"a": ["db.source.a", "db.source.id"]})
    emitter.send(declared.write(pa.table({"id": [1], "a": [3]}, schema=SCHEMA)))
    assert emitter.close()
    other = Catalog(tmp_path / "other")
    other.create_database("db")
    import_events(other, [path])
    (run,) = known_fields(other).runs
    assert run.sink == Dataset("file", target.path)
    (document,) = known_fields(other).documents.values()
    source = Dataset("file", catalog.load_table("db.source").path)
    (field,) = document.lineage.fields
    assert {(edge.source.dataset, edge.source.name) for edge in field.edges} == {(source, "a"), (source, "id")}
    facets = json.loads(path.read_text().splitlines()[0])["outputs"][0]["facets"]
    assert facets["lineage"]["fields"].keys() == facets["columnLineage"]["fields"].keys() == {"a"}
