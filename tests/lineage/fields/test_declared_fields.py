"""The lineage of fields that programs without Spark declare: by `made_from`, and by the clauses of merges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.lineage import Dataset, FieldOperation, OperationInput, OperationKind, made_from
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_store import find_document

ORDERS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.int64()), ("pieces", pa.int64())])
REPORT = pa.schema([pa.field("id", pa.int64(), nullable=False), ("total", pa.int64()), ("price", pa.int64())])
ROWS = pa.table({"id": [1], "total": [6], "price": [2]}, schema=REPORT)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path / "lake")
    catalog.create_table("db.orders", schema=ORDERS, primary_keys=["id"])
    catalog.create_table("db.report", schema=REPORT, primary_keys=["id"])
    catalog.load_table("db.orders").write(pa.table({"id": [1], "price": [2], "pieces": [3]}, schema=ORDERS))
    return catalog


def document(table: Table) -> FieldDocument:
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    (checksum,) = (one for batch in batches_of(snapshot) for one in batch.lineage.fields)
    found = find_document(table.store, checksum)
    assert found is not None
    return found


def edges(found: FieldDocument) -> dict[str, set[str]]:
    """The inputs of each field with their subtypes; those of all fields under `*`."""
    by_field = {one.name: one.edges for one in found.lineage.fields} | {"*": found.lineage.dataset}
    return {
        name: {f"{edge.source.dataset.name}.{edge.source.name} {edge.kind.subtype}" for edge in given}
        for name, given in by_field.items()
    }


def test_columns_are_made_from_what_is_declared(catalog: Catalog) -> None:
    report = catalog.load_table("db.report")
    declared = {"total": ["db.orders.price", "db.orders.pieces"], "id": "db.orders.id"}
    made_from(report, "db.orders@1", fields=declared).write(ROWS)
    found = document(report)
    assert edges(found) == {
        "total": {"orders.price TRANSFORMATION", "orders.pieces TRANSFORMATION"},
        "id": {"orders.id TRANSFORMATION"},
        "*": set(),
    }
    assert not found.is_approximate
    assert found.ids == {"total": 1, "id": 0}


def test_without_a_declaration_names_say_what_is_known_and_that_is_marked(catalog: Catalog) -> None:
    report = catalog.load_table("db.report")
    made_from(report, "db.orders@1").write(ROWS)
    found = document(report)
    every = {f"orders.{name} TRANSFORMATION" for name in ("id", "price", "pieces")}
    assert edges(found) == {
        "id": {"orders.id TRANSFORMATION"},
        "price": {"orders.price TRANSFORMATION"},
        "total": every,
        "*": set(),
    }
    assert found.is_approximate
    assert [one.name for one in found.lineage.fields if one.is_opaque] == ["total"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sum": "db.orders.id"}, "column 'sum', which db.report does not have: its columns are id, total, price"),
        ({"total": "db.orders.cost"}, "db.orders has no column 'cost': its columns are id, price, pieces"),
        ({"total": "db.other.id"}, "'db.other.id', which is no column of a declared source: expected one of db.orders"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(catalog: Catalog, fields: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        made_from(catalog.load_table("db.report"), "db.orders", fields=fields)


STEPS = (
    FieldOperation(
        kind=OperationKind.READ, name="read", dataset=Dataset("db", "orders"), outputs=("id", "price", "pieces")
    ),
    FieldOperation(
        kind=OperationKind.TRANSFORM,
        name="multiply",
        description="price times pieces",
        inputs=(OperationInput(origin="read", field="price"), OperationInput(origin="read", field="pieces")),
        outputs=("total",),
    ),
    FieldOperation(
        kind=OperationKind.WRITE,
        name="write",
        dataset=Dataset("db", "report"),
        inputs=(OperationInput(origin="read", field="id"), OperationInput(origin="multiply", field="total")),
    ),
)


def test_a_document_that_cannot_be_written_fails_no_job(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    report = catalog.load_table("db.report")
    folder = Path(report.path) / "lakelog" / "fields"
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("no folder")
    made_from(report, "db.orders@1", job="nightly").write(ROWS)
    assert report.to_arrow().num_rows == 1
    assert "the lineage of fields of db.report is not known" in caplog.text
    newest = report.store.snapshots.latest()
    assert newest is not None
    assert [(one.lineage.job, one.lineage.fields) for one in batches_of(newest)] == [("nightly", ())]


def test_operations_say_it_step_by_step(catalog: Catalog) -> None:
    report = catalog.load_table("db.report")
    made_from(report, "db.orders@1", operations=STEPS).write(ROWS)
    found = document(report)
    assert edges(found) == {
        "total": {"orders.price TRANSFORMATION", "orders.pieces TRANSFORMATION"},
        "id": {"orders.id IDENTITY"},
        "*": set(),
    }
    assert found.operations == STEPS


def test_operations_that_do_not_fit_are_refused(catalog: Catalog) -> None:
    report = catalog.load_table("db.report")
    with pytest.raises(InvalidRequestError, match="WRITE"):
        made_from(report, "db.orders@1", operations=STEPS[:2])
    written = replace(STEPS[2], inputs=(OperationInput(origin="read", field="pieces"),))
    with pytest.raises(InvalidRequestError, match=r"field 'pieces', which db\.report does not have"):
        made_from(report, "db.orders@1", operations=(*STEPS[:2], written))
    with pytest.raises(InvalidRequestError, match="two ways to say one thing"):
        made_from(report, "db.orders@1", operations=STEPS, fields={"id": "db.orders.id"})


UNREADABLE = {
    "half a character": {"description": "\ud800"},
    "too large": {"description": "x" * (17 << 20)},
    "a number as a name": {"name": 5},
    "a number as an output": {"outputs": (5,)},
    "a number as a description": {"description": 5},
}


@pytest.mark.parametrize("odd", UNREADABLE.values(), ids=UNREADABLE)
def test_operations_that_could_not_be_read_again_are_refused_before_anything_is_written(
    catalog: Catalog, odd: dict[str, str]
) -> None:
    report = catalog.load_table("db.report")
    multiply = replace(STEPS[1], **odd)  # type: ignore[arg-type]  # some are of a wrong type
    inputs = tuple(OperationInput(origin=multiply.name, field=name) for name in multiply.outputs)
    write = replace(STEPS[2], inputs=inputs)
    with pytest.raises(InvalidRequestError, match=r"could not be read again|expected a string"):
        made_from(report, "db.orders@1", operations=(STEPS[0], multiply, write))
    assert not Path(report.path, "lakelog", "fields").exists()


def of_some(table: Table) -> None:
    merge = table.merge(pa.table({"id": [1], "price": [5]}))
    merge.when_matched_update(
        {"total": pl.sql_expr("source.price * target.total"), "price": 1}, "target.price > 0"
    ).when_not_matched_by_source_update({"total": pl.col("price") + 1}).execute()


def of_all(table: Table) -> None:
    table.merge(pa.table({"id": [2], "price": [5]})).when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        (
            of_some,
            {
                "total": {"report.total TRANSFORMATION", "report.price TRANSFORMATION", "orders.price TRANSFORMATION"},
                "price": set(),
                "*": {"report.price FILTER", "orders.id JOIN", "report.id JOIN"},
            },
        ),
        (
            of_all,
            {
                "id": {"orders.id TRANSFORMATION"},
                "price": {"orders.price TRANSFORMATION"},
                "*": {"orders.id JOIN", "report.id JOIN"},
            },
        ),
    ],
)
def test_a_merge_records_what_its_clauses_assign(
    catalog: Catalog, merge: Callable[[Table], None], expected: dict[str, set[str]]
) -> None:
    report = catalog.load_table("db.report")
    report.write(ROWS)
    merge(made_from(report, "db.orders@1"))
    found = document(report)
    assert edges(found) == expected
    assert found.is_approximate
