"""Which fields a wrong field has reached: fewer than the tables that a wrong snapshot has reached."""

from __future__ import annotations

from pathlib import Path
from random import Random
from shutil import copytree

import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import NotFoundError
from lakelog.lineage import TaintedFields, tainted, tainted_fields, unreadable_tables
from tests.support.lineage.field_tables import Input, make_table, read_blindly, write_fields


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def fields(found: TaintedFields) -> dict[tuple[str, str], tuple[int, int | None, bool, bool]]:
    """(first tainted, last clean, direct, known) by table and field."""
    return {
        (row["table"], row["field"]): (row["first_tainted"], row["last_clean"], row["direct"], row["known"])
        for row in found.fields.to_pylist()
    }


def test_a_field_without_an_edge_from_the_wrong_one_is_clean_in_a_tainted_table(catalog: Catalog) -> None:
    orders = make_table(catalog, "db.orders", "id", "amount")
    report = make_table(catalog, "db.report", "key", "total")
    by_id = make_table(catalog, "db.ids", "id")
    write_fields(orders, {"id": [], "amount": []})
    write_fields(report, {"key": [(orders, "id")], "total": [(orders, "amount")]}, job="nightly")
    write_fields(orders, {"id": [], "amount": []})
    write_fields(report, {"key": [(orders, "id")], "total": [(orders, "amount")]}, job="nightly")
    write_fields(by_id, {"id": [(report, "key")]})

    found = tainted_fields(catalog, "db.orders", "amount", 2)

    assert fields(found) == {("db.orders", "amount"): (2, 1, True, True), ("db.report", "total"): (2, 1, True, True)}
    assert set(found.tables.tables["table"].to_pylist()) == {"db.orders", "db.report", "db.ids"}
    assert found.fields["jobs"].to_pylist() == [[], ["nightly"]]


def test_an_edge_that_decides_about_rows_taints_all_fields_and_what_is_made_from_them(catalog: Catalog) -> None:
    orders = make_table(catalog, "db.orders", "day", "amount")
    report = make_table(catalog, "db.report", "total")
    page = make_table(catalog, "db.page", "shown")
    write_fields(orders, {"day": [], "amount": []})
    write_fields(report, {"total": [(orders, "amount")]}, dataset=[(orders, "day", "FILTER")])
    write_fields(page, {"shown": [(report, "total")]})

    assert fields(tainted_fields(catalog, "db.orders", "day", 1)) == {
        ("db.orders", "day"): (1, None, True, True),
        ("db.report", "total"): (1, None, False, True),
        ("db.page", "shown"): (1, None, False, True),
    }


def test_a_batch_that_read_the_field_before_it_was_wrong_is_clean(catalog: Catalog) -> None:
    """Its table is tainted by another field."""
    source = make_table(catalog, "db.source", "a", "b")
    middle = make_table(catalog, "db.middle", "a", "b")
    last = make_table(catalog, "db.last", "a", "b")
    write_fields(source, {"a": [], "b": []})
    write_fields(middle, {"b": [(source, "b")]})
    write_fields(last, {"a": [(middle, "a")], "b": [(middle, "b")]})
    write_fields(middle, {"a": [(source, "a")]}, job="later")

    assert set(tainted(catalog, "db.source", 1).tables["table"].to_pylist()) == {"db.source", "db.middle", "db.last"}
    assert fields(tainted_fields(catalog, "db.source", "a", 1)) == {
        ("db.source", "a"): (1, None, True, True),
        ("db.middle", "a"): (2, 1, True, True),
    }
    write_fields(last, {"a": [(middle, "a")], "b": [(middle, "b")]})
    assert fields(tainted_fields(catalog, "db.source", "a", 1))["db.last", "a"] == (2, 1, True, True)


def test_a_batch_without_lineage_of_fields_may_have_put_it_anywhere(catalog: Catalog) -> None:
    source = make_table(catalog, "db.source", "a")
    blind = make_table(catalog, "db.blind", "x", "y")
    last = make_table(catalog, "db.last", "z")
    write_fields(source, {"a": []})
    read_blindly(blind, source, job="script")
    write_fields(last, {"z": [(blind, "y")]})

    assert fields(tainted_fields(catalog, "db.source", "a", 1)) == {
        ("db.source", "a"): (1, None, True, True),
        ("db.blind", "x"): (1, None, False, False),
        ("db.blind", "y"): (1, None, False, False),
        ("db.last", "z"): (1, None, False, False),
    }


def test_a_branch_has_the_wrong_field_of_its_table(catalog: Catalog) -> None:
    orders = make_table(catalog, "db.orders", "id", "amount")
    write_fields(orders, {"id": [], "amount": []})
    orders.branches.create("b")

    found = fields(tainted_fields(catalog, "db.orders", "amount", 1))

    assert set(found) == {("db.orders", "amount"), ("db.orders$branch_b", "amount")}


def test_a_copy_of_a_folder_has_no_fields_until_it_has_an_identity(catalog: Catalog) -> None:
    orders = make_table(catalog, "db.orders", "id")
    write_fields(orders, {"id": []})
    copytree(orders.path, Path(orders.path).parent / "copy")

    assert list(fields(tainted_fields(catalog, "db.orders", "id", 1))) == [("db.orders", "id")]
    with unreadable_tables(logs=False) as left_out, pytest.raises(NotFoundError, match=r"it names db\.orders"):
        tainted_fields(catalog, "db.copy", "id", 1)
    assert [one.name for one in left_out] == ["db.copy"]
    catalog.load_table("db.copy").upkeep.new_identity()
    assert list(fields(tainted_fields(catalog, "db.copy", "id", 1))) == [("db.copy", "id")]


def test_a_field_and_a_snapshot_must_exist(catalog: Catalog) -> None:
    write_fields(make_table(catalog, "db.orders", "id"), {"id": []})

    with pytest.raises(NotFoundError, match="has no field 'amount'; it has id"):
        tainted_fields(catalog, "db.orders", "amount", 1)
    with pytest.raises(NotFoundError, match="snapshot 9 of"):
        tainted_fields(catalog, "db.orders", "id", 9)


@pytest.mark.parametrize("seed", range(8))
def test_histories_are_tainted_as_a_model_of_their_values_is(catalog: Catalog, seed: int) -> None:
    """The model follows each column: from which snapshot of its table on it has a value that comes from a wrong one."""
    random = Random(seed)
    tables = [make_table(catalog, f"db.t{at}", "a", "b") for at in range(4)]
    wrong_table, wrong_field, wrong_snapshot = tables[0].name, random.choice("ab"), random.randint(1, 3)
    first: dict[tuple[str, str], int] = {}
    for _ in range(14):
        sink = random.choice(tables)
        readable = [one for one in tables if one.store.snapshots.latest_id() is not None]
        inputs = random.sample(readable, min(len(readable), random.randint(0, 2)))
        fields: dict[str, list[Input]] = {
            name: [(source, random.choice("ab")) for source in inputs if random.random() < 0.7] for name in "ab"
        }
        filters: list[Input] = [(source, "b", "FILTER") for source in inputs if random.random() < 0.2]
        known = {name: dict(first) for name in "ab"}
        snapshot = write_fields(sink, fields, dataset=filters, job=f"job {random.randrange(3)}").id
        for name in "ab":
            read = [(source[0].name, source[1]) for source in [*fields[name], *filters]]
            is_wrong = (sink.name, name, snapshot) == (wrong_table, wrong_field, wrong_snapshot)
            if is_wrong or any(one in known[name] for one in read):
                first.setdefault((sink.name, name), snapshot)
    if not any(one == (wrong_table, wrong_field) for one in first):
        return  # the history is too short for its wrong snapshot

    found = tainted_fields(catalog, wrong_table, wrong_field, first[wrong_table, wrong_field])

    assert {(row["table"], row["field"]): row["first_tainted"] for row in found.fields.to_pylist()} == first
    assert all(found.fields["known"].to_pylist())
