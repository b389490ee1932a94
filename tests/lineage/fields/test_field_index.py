"""The index of fields: present names, a file that is replaced where it does not fit, and searches."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.fields.questions.field_index import FieldIndex, build_index
from lakelog.lineage.fields.questions.field_search import search
from tests.support.lineage.known_world import KnownWorld, dataset_of, uuid_of

REPORT = Dataset("db", "report")


@pytest.fixture
def world() -> KnownWorld:
    return KnownWorld().table("db.orders", "id", "amount").table("db.report", "total")


def states(index: FieldIndex, name: str) -> dict[str, str]:
    return {one.name: one.state for one in index.fields_of([index.dataset(dataset_of(name)).id])}


def sources_of(index: FieldIndex, name: str, field: str) -> set[tuple[str, str]]:
    target = index.field(index.dataset(dataset_of(name)), field)
    edges = index.edges_into([target.id])
    fields = index.fields(edge.source for edge in edges)
    names = {one.id: ".".join(one.dataset) for one in index.datasets()}
    return {(names[one.dataset], one.name) for one in fields.values()}


def test_a_renamed_column_and_a_renamed_table_have_their_present_names(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    world.drop("db.orders").table("db.sales", "id", ("dollars", 1), uuid=uuid_of("db.orders"))
    world.table("db.report", ("sum", 0))

    index = build_index(world.known())

    assert sources_of(index, "db.report", "sum") == {("db.sales", "dollars")}
    assert index.find_dataset(dataset_of("db.orders")) is None


def test_a_dropped_column_is_not_the_new_one_of_its_name(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    world.table("db.orders", "id", ("amount", 7))

    index = build_index(world.known())

    assert sources_of(index, "db.report", "total") == {("db.orders", "amount (dropped, number 1)")}
    assert states(index, "db.orders") == {
        "id": "present",
        "amount": "present",
        "amount (dropped, number 1)": "dropped",
    }


def test_columns_that_have_swapped_names_keep_their_lineage(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    world.table("db.orders", ("amount", 0), ("id", 1))

    assert sources_of(build_index(world.known()), "db.report", "total") == {("db.orders", "id")}


def test_a_table_is_not_the_deleted_one_of_its_name(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    world.table("db.orders", "id", "amount", uuid="another")

    index = build_index(world.known())

    [(dataset, field)] = sources_of(index, "db.report", "total")
    assert (dataset, field) == (f"db.orders ({uuid_of('db.orders')[:8]})", "amount")


def test_tables_of_two_warehouses_with_one_name_are_two(world: KnownWorld) -> None:
    other = KnownWorld().table("db.report", "total", uuid="f00dfeed-1").table("db.x", "y", uuid="x")
    other.write("db.report", {"total": ["db.x.y"]})
    world.write("db.report", {"total": ["db.orders.amount"]})
    world.runs += other.runs
    world.documents |= other.documents
    known = world.known()
    both = type(known)(
        runs=known.runs, documents=known.documents, tables=[*known.tables, *other.tables.values()], lost=known.lost
    )

    index = build_index(both)

    assert sources_of(index, "db.report", "total") == {("db.orders", "amount")}
    assert sources_of(index, "db.report (f00dfeed)", "total") == {("db.x", "y")}


def test_a_copy_of_a_folder_shares_a_uuid_and_has_its_own_lineage(world: KnownWorld) -> None:
    world.table("db.copy", "id", "amount", uuid=uuid_of("db.orders"))
    world.write("db.report", {"total": ["db.copy.amount"]})
    world.write("db.copy", {"id": ["kafka.t.v"]})

    index = build_index(world.known())

    assert sources_of(index, "db.report", "total") == {("db.copy", "amount")}
    assert sources_of(index, "db.copy", "id") == {("kafka.t", "v")}
    assert sources_of(index, "db.orders", "id") == set()


def test_a_topic_is_known_by_name_and_is_no_table_of_that_name(world: KnownWorld) -> None:
    world.write("db.orders", {"id": ["kafka.db.report.total"]})

    index = build_index(world.known())

    assert sources_of(index, "db.orders", "id") == {("kafka.db.report", "total")}
    assert index.dataset(Dataset("kafka", "db.report")).is_present is False


def test_a_branch_is_a_dataset_of_its_own(world: KnownWorld) -> None:
    world.table("db.report$branch_b", "total", uuid=uuid_of("db.report"))
    world.write("db.report", {"total": ["db.orders.amount"]})

    index = build_index(world.known())

    assert sources_of(index, "db.report", "total") == {("db.orders", "amount")}
    assert sources_of(index, "db.report$branch_b", "total") == set()


def test_a_part_of_a_struct_is_an_edge_of_its_column(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount.net.value"]})

    index = build_index(world.known())

    [edge] = index.edges_into([index.field(index.dataset(REPORT), "total").id])
    assert (sources_of(index, "db.report", "total"), edge.path) == ({("db.orders", "amount")}, "net.value")


@pytest.mark.parametrize("name", ["half \ud800 of a character", "", "a\x00b", "x" * 5_000, "表\u202e"])
def test_any_name_can_be_asked_for(name: str) -> None:
    world = KnownWorld().table("db.t", name or "''").table("db.u", "x")
    world.write("db.u", {"x": [f"db.t.{name or chr(39) * 2}"]})

    index = build_index(world.known())

    [source] = sources_of(index, "db.u", "x")
    assert index.find_field(index.dataset(dataset_of("db.t")), source[1]) is not None
    assert index.find_field(index.dataset(dataset_of("db.t")), name + "\udfff") is None


def test_a_file_is_used_again_while_it_fits(world: KnownWorld, tmp_path: Path) -> None:
    file = tmp_path / "index"
    build_index(world.known(), file).close()
    before = file.stat().st_ino

    build_index(world.known(), file).close()
    assert file.stat().st_ino == before

    world.write("db.report", {"total": ["db.orders.amount"]})
    with_edges = build_index(world.known(), file)
    assert file.stat().st_ino != before
    assert sources_of(with_edges, "db.report", "total") == {("db.orders", "amount")}


def test_a_run_that_goes_on_is_followed_without_building_again(world: KnownWorld, tmp_path: Path) -> None:
    """A streaming job commits a batch each few seconds."""
    file = tmp_path / "index"
    world.write("db.report", {"total": ["db.orders.amount"]}, snapshots=(1, 5))
    index = build_index(world.known(), file)
    before = file.stat().st_ino
    sink = index.dataset(REPORT).id
    world.runs[0] = replace(world.runs[0], last_snapshot=9, last_millis=world.runs[0].last_millis + 1)

    assert index.follow(world.known())
    assert [run.last_snapshot for run in index.runs_of_sink(sink)] == [9]
    index.close()
    world.runs[0] = replace(world.runs[0], last_snapshot=11)
    again = build_index(world.known(), file)
    assert [run.last_snapshot for run in again.runs_of_sink(sink)] == [11]
    assert file.stat().st_ino == before

    world.write("db.report", {"total": []}, run="another program")
    assert not again.follow(world.known())


def test_a_renamed_column_is_not_followed_but_built(world: KnownWorld) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    index = build_index(world.known())
    assert not index.follow(world.table("db.orders", "id", ("dollars", 1)).known())


def damage_of(file: Path, how: str) -> None:
    match how:
        case "empty":
            file.write_bytes(b"")
        case "text":
            file.write_text("notes of someone")
        case "cut":
            file.write_bytes(file.read_bytes()[:5_000])
        case "flipped":
            data = bytearray(file.read_bytes())
            data[4_096:20_000] = bytes(byte ^ 0xFF for byte in data[4_096:20_000])
            file.write_bytes(data)
        case "foreign":
            file.unlink()
            with sqlite3.connect(file) as connection:
                connection.execute("CREATE TABLE meta (key, value)")
            connection.close()
        case "version":
            with sqlite3.connect(file) as connection:
                connection.execute("UPDATE meta SET value = '999' WHERE key = 'version'")
                connection.execute("DELETE FROM edges")
            connection.close()


@pytest.mark.parametrize("how", ["empty", "text", "cut", "flipped", "foreign", "version"])
def test_a_file_that_is_damaged_or_of_another_kind_is_built_again(world: KnownWorld, tmp_path: Path, how: str) -> None:
    world.write("db.report", {"total": ["db.orders.amount"]})
    file = tmp_path / "index"
    build_index(world.known(), file).close()
    damage_of(file, how)

    index = build_index(world.known(), file)

    assert sources_of(index, "db.report", "total") == {("db.orders", "amount")}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["index"]


def test_an_index_is_no_folder(world: KnownWorld, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="not a regular file"):
        build_index(world.known(), tmp_path)


def test_an_error_names_what_is_there(world: KnownWorld) -> None:
    index = build_index(world.known())

    with pytest.raises(NotFoundError, match=r"'db\.order'; it names db\.orders, db\.report"):
        index.dataset(Dataset("db", "order"))
    with pytest.raises(NotFoundError, match="'price'; it has id, amount"):
        index.field(index.dataset(Dataset("db", "orders")), "price")


def test_a_search_finds_parts_of_names_in_any_case_and_datasets_first(world: KnownWorld) -> None:
    world.table("db.Total_sales", "x%y")

    index = build_index(world.known())

    total, found = search(index, "TOTAL", limit=10)
    assert (total, [(one.dataset, one.field) for one in found]) == (2, [("Total_sales", None), ("report", "total")])
    assert search(index, "%", limit=10)[0] == 1  # no pattern, and not everything
    pages = [search(index, "", limit=1, offset=at)[1][0].dataset for at in range(3)]
    assert pages == ["orders", "report", "Total_sales"]


def test_a_lost_document_is_a_write_of_which_nothing_is_known(world: KnownWorld) -> None:
    checksum = world.write("db.report", {"total": ["db.orders.amount"]})
    world.lost[checksum] = "the disk is gone"
    del world.documents[checksum]

    index = build_index(world.known())

    assert sources_of(index, "db.report", "total") == set()
    assert [one.is_approximate for one in index.writes(sinks=[index.dataset(REPORT).id]).values()] == [True]
