"""What a three-way merge of a branch does with single rows, columns, states and failures."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError, UnsupportedError
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.compact.buckets import compact_buckets
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.metadata.snapshots.users import MERGED_PREFIX
from lakelog.filestore.refs import create_branch, delete_branch, rename_branch
from lakelog.filestore.refs.merges.merge_plan import BranchConflictError, BranchMerge
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete, expire_snapshots, merge_changes, rescale
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.altered import altered
from tests.support.tables.foreign_engine import fast_forward_as_others_do
from tests.support.tables.hand_made_branches import fork
from tests.support.tables.paimon_tables import unpack
from tests.support.tables.small_tables import UNSYNCED, in_new_process
from tests.support.tables.taken_over import take_over

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("amount", pa.int32()),
        pa.field("price", pa.decimal128(38, 2)),
        pa.field("note", pa.string()),
    ]
)
ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
Row = tuple[object, ...]
CHANGING = ("create_new", "write_bytes", "delete", "delete_tree", "open_output")


def table_of(
    folder: Path, *given: Row, keys: tuple[str, ...] = ("id",), options: dict[str, str] | None = None
) -> FileStoreTable:
    """A table with these rows, and its branch `b`."""
    all_options = {"bucket": "1" if keys else "-1"} | (options or {})
    schema = build_schema(SCHEMA, primary_keys=keys, options=all_options)
    table = FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)
    if given:
        put(table, *given)
    create_branch(table, "b")
    return table


def put(table: FileStoreTable, *given: Row) -> None:
    """Write rows; columns at their end may be left out, and are null."""
    names = SCHEMA.names
    table.write(pa.Table.from_pylist([dict(zip(names, row, strict=False)) for row in given], SCHEMA))


def branch_of(table: FileStoreTable) -> FileStoreTable:
    return table.on_branch("b")


def rows(table: FileStoreTable) -> list[Row]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=repr)


def merged(table: FileStoreTable, **rules: str) -> BranchMerge:
    return merge_changes(table, "b", on_conflict=rules or "fail")


def test_a_column_that_one_side_has_changed_has_its_value_under_a_column_rule(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1, None, "a"))
    put(branch_of(table), (1, 2, None, "a"))
    put(table, (1, 1, None, "b"))

    found = merged(table, amount="fail")

    assert found.conflicts["decision"].to_pylist() == ["columns"]
    assert rows(table) == [(1, 2, None, "b")]


@pytest.mark.parametrize(
    ("rule", "main", "branch", "expected"),
    [
        ("sum", 15, 20, 25),
        ("sum", None, 20, 10),
        ("sum", 7, None, -3),
        ("max", 15, 20, 20),
        ("max", None, 20, 20),
        ("max", 30, None, 30),
        ("min", 15, 20, 15),
        ("branch", 15, None, None),
        ("main", 15, 20, 15),
    ],
)
def test_a_rule_decides_a_column_that_both_have_changed(
    tmp_path: Path, rule: str, main: int | None, branch: int | None, expected: int | None
) -> None:
    table = table_of(tmp_path, (1, 10))
    put(branch_of(table), (1, branch))
    put(table, (1, main))

    merged(table, amount=rule)

    assert rows(table)[0][1] == expected


def test_decimals_are_added_up_exactly(tmp_path: Path) -> None:
    largest = Decimal("999999999999999999999999999999999999.99")
    table = table_of(tmp_path, (1, 0, Decimal("0.01")), (2, 0, largest))
    almost = Decimal("999999999999999999999999999999999999.98")
    put(branch_of(table), (1, 0, largest), (2, 0, Decimal("0.00")))
    put(table, (1, 0, Decimal("0.00")), (2, 0, almost))

    merged(table, price="sum")

    assert [row[2] for row in rows(table)] == [almost, Decimal("-0.01")]


def test_a_sum_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 0))
    put(branch_of(table), (1, 2_000_000_000))
    put(table, (1, 2_000_000_000))
    put(table, (1, 1_999_999_999))

    with pytest.raises(InvalidRequestError, match=r"column 'amount': a sum .* does not fit INT.*another rule"):
        merged(table, amount="sum")

    assert rows(table) == [(1, 1_999_999_999, None, None)]


def test_two_inserts_of_a_key_are_merged_by_column_as_if_the_row_was_empty_before(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    put(branch_of(table), (1, 2, None, "branch"))
    put(table, (1, 3, None, None))

    merged(table, amount="sum")

    assert rows(table) == [(1, 5, None, "branch")]


def test_a_delete_against_an_update_takes_the_rule_of_all_others(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), (2, 2))
    delete(branch_of(table), "id = 1")
    put(branch_of(table), (2, 20))
    put(table, (1, 10))
    delete(table, "id = 2")

    with pytest.raises(BranchConflictError, match="have changed 2 row"):
        merged(table, amount="sum")
    found = merge_changes(table, "b", on_conflict={"amount": "sum", "*": "branch"})

    assert found.conflicts["decision"].to_pylist() == ["branch", "branch"]
    assert rows(table) == [(2, 20, None, None)]


def test_a_conflict_names_count_sample_and_the_ways_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1))
    delete(branch_of(table), "id = 1")
    put(table, (1, 10))

    with pytest.raises(BranchConflictError) as caught:
        merged(table)

    said = str(caught.value)
    assert "have changed 1 row(s) in different ways since snapshot 1" in said
    assert "id=1: base (id=1, amount=1, price=None, note=None), main (id=1, amount=10," in said
    assert "branch no row" in said
    assert "on_conflict='branch'" in said
    assert "dry_run=True" in said
    assert caught.value.merge.conflicts.to_pylist()[0]["branch"] is None


def test_what_both_sides_did_alike_is_not_written_again(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), (2, 2))
    for side in (table, branch_of(table)):
        put(side, (1, 10), (3, 3))
        delete(side, "id = 2")

    found = merged(table)

    assert (found.upserted, found.deleted, found.conflict_count) == (0, 0, 0)
    assert found.snapshot_id == table.snapshots.latest_id()  # that the branch is merged is recorded
    put(table, (1, 11))
    put(branch_of(table), (3, 30))
    assert merged(table).upserted == 1


def test_a_row_younger_than_what_a_compaction_rewrote_is_the_base(tmp_path: Path) -> None:
    table = FileStoreTable.create(
        f"{tmp_path}/t",
        build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"}),
        UNSYNCED,
    )
    put(table, (1, 1), (2, 2))
    put(table, (1, 2))
    work = due_work(
        table,
        table.snapshots.latest(),
        None,
        lambda _, files, marked: pick_unit(table, files, is_full=True, marked=marked),
    )
    results = compact_buckets(table, work)
    put(table, (1, 3))
    create_branch(table, "b")
    commit_results(branch_of(table), results)  # its files are older than the row that both lines have
    put(branch_of(table), (1, 4))
    put(table, (1, 2), (2, 20))

    found = merge_changes(table, "b", on_conflict="main")

    assert [row["amount"] for row in found.conflicts["base"].to_pylist()] == [3]
    assert rows(table) == [(1, 2, None, None), (2, 20, None, None)]


@pytest.mark.parametrize("side", ["main", "b"])
def test_a_side_with_another_number_of_buckets_is_merged_by_key(tmp_path: Path, side: str) -> None:
    table = table_of(tmp_path, *((number, number) for number in range(20)))
    lines = {"main": table, "b": branch_of(table)}
    lines[side] = rescale(lines[side], 3)
    put(lines["b"], (1, 10), (2, 20))
    delete(lines["b"], "id = 3")
    put(lines["main"], (2, 21), (4, 40))

    found = merge_changes(lines["main"], "b", on_conflict="main")

    assert (found.upserted, found.deleted) == (1, 1)
    assert [row["amount"] for row in found.conflicts["base"].to_pylist()] == [2]
    changed = {1: 10, 2: 21, 4: 40}
    expected = [(number, changed.get(number, number)) for number in range(20) if number != 3]
    assert sorted(row[:2] for row in rows(lines["main"])) == expected


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1))
    put(branch_of(table), (2, 2))
    before = sorted(str(path) for path in Path(table.path).rglob("*"))

    found = merge_changes(table, "b", dry_run=True)

    assert (found.upserted, found.snapshot_id) == (1, None)
    assert sorted(str(path) for path in Path(table.path).rglob("*")) == before


def test_only_files_in_which_the_sides_differ_are_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, *((number, 1) for number in range(1000)))
    put(branch_of(table), (1, 10), (2, 20))
    put(table, (3, 30))

    assert merged(table).rows_read == 3


@pytest.mark.parametrize("keys", [("id",), ()], ids=["primary key", "append"])
def test_a_merge_that_dies_at_any_call_is_merged_once(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table = table_of(tmp_path / "origin", (1, 1), (2, 2), keys=keys)
    put(branch_of(table), (3, 3))
    put(table, (4, 4))
    merge_changes(table, "b")
    put(branch_of(table), (5, 5))
    if not keys:
        pa_rows = branch_of(table).to_arrow(where="id <> 2")
        branch_of(table).write(pa_rows, mode="overwrite")
    put(table, (6, 6))
    expected = [1, *([2] if keys else []), 3, 4, 5, 6]
    counted = FaultyFileIO(UNSYNCED)
    merge_changes(in_new_process(str(shutil.copytree(table.path, tmp_path / "count")), counted), "b")
    changing = [number for number, name in enumerate(counted.calls, 1) if name in CHANGING]
    assert len(changing) > 6
    for call in changing:
        path = str(shutil.copytree(table.path, tmp_path / str(call)))
        dying = FaultyFileIO(UNSYNCED, fails_at=call)
        with pytest.raises(InjectedCrash):
            merge_changes(in_new_process(path, dying), "b")

        found = in_new_process(path)
        merge_changes(found, "b")

        assert Counter(row[0] for row in rows(in_new_process(path))) == Counter(expected), f"died at call {call}"
        assert [tag for tag in branch_of(found).snapshots.tags() if tag.startswith("lakelog-merged-")] == [
            f"lakelog-merged-{branch_of(found).snapshots.latest_id()}"
        ]


def test_a_merge_begins_where_the_last_one_ended_also_when_the_branch_has_expired_it(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    merged(table)
    for number in range(3, 6):
        put(branch_of(table), (number, number))
    expire_snapshots(branch_of(table), retention=ONE)

    assert merged(table).inserted == 3
    assert [row[0] for row in rows(table)] == [1, 2, 3, 4, 5]


def test_a_renamed_branch_is_merged_from_where_it_was_merged(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    merged(table)
    rename_branch(table, "b", "c")
    put(table.on_branch("c"), (3, 3))

    assert merge_changes(table, "c").inserted == 1
    assert [row[0] for row in rows(table)] == [1, 2, 3]


def test_a_branch_that_was_made_again_is_merged_from_its_own_beginning(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    merged(table)
    delete_branch(table, "b")
    create_branch(table, "b")
    put(branch_of(table), (3, 3))

    assert merged(table).inserted == 1
    assert [row[0] for row in rows(table)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("take", "is_older"),
    [
        *product(("fast_forward", "merge_branch", "replace_main"), (False, True)),
        ("of another engine", False),  # it copies the branch's own snapshots
    ],
)
def test_a_branch_is_merged_from_where_it_was_merged_before_another_one_took_the_place(
    tmp_path: Path, take: str, is_older: bool
) -> None:
    """The rows of the other one hold what was merged before it began; `is_older`: its copy does not say so."""
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    merged(table)
    create_branch(table, "other")
    other = table.on_branch("other")
    if is_older:
        forget_merges(other)
    put(other, (3, 3))
    if take == "of another engine":
        fast_forward_as_others_do(table, "other")
    else:
        take_over(table, take, "other")
    put(branch_of(table), (4, 4))

    assert merged(in_new_process(table.path)).inserted == 1
    assert [row[0] for row in rows(in_new_process(table.path))] == [1, 2, 3, 4]


def forget_merges(branch: FileStoreTable) -> None:
    """Make the snapshots of a branch as those of older versions, which do not have up to where others are merged."""
    for number in branch.snapshots.ids():
        found = branch.snapshots.get(number)
        properties = {key: text for key, text in found.properties.items() if not key.startswith(MERGED_PREFIX)}
        branch.file_io.write_bytes(
            branch.paths.snapshot(number), replace(found, properties=properties).to_json().encode()
        )


def test_records_of_deleted_branches_are_not_carried_on(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    for name in ("b", "c", "d"):
        create_branch(table, name, if_not_exists=True)
        put(table.on_branch(name), (2, 2))
        merge_changes(table, name)
    delete_branch(table, "b")
    put(table.on_branch("c"), (3, 3))
    merge_changes(table, "c")
    put(table, (4, 4))

    latest = table.snapshots.latest()
    assert latest is not None
    records = [json.loads(text)["branch"] for key, text in latest.properties.items() if ".merged." in key]
    assert sorted(records) == ["c", "d"]
    assert [merge_changes(table, name).snapshot_id for name in ("c", "d")] == [None, None]


def test_an_empty_branch_is_merged_from_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1))
    create_branch(table, "e", empty=True)
    put(table.on_branch("e"), (2, 2))

    assert merge_changes(table, "e").upserted == 1
    assert [row[0] for row in rows(table)] == [1, 2]


def test_what_both_lines_share_after_the_fork_is_not_merged_again(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    # As a fast-forward leaves it: the branch's snapshots are the table's.
    for path in (Path(table.path) / "branch" / "branch-b" / "snapshot").iterdir():
        shutil.copy(path, Path(table.path) / "snapshot")
    forwarded = in_new_process(table.path)
    put(branch_of(forwarded), (3, 3))
    put(forwarded, (4, 4))

    assert merge_changes(forwarded, "b").inserted == 1
    assert [row[0] for row in rows(forwarded)] == [1, 2, 3, 4]


def test_a_branch_of_another_engine_needs_its_base_once(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    branch = fork(table, "foreign", is_known=False)
    put(branch, (2, 2))

    with pytest.raises(InvalidRequestError, match=r"'foreign' of table t has no fork point.*with base=1, or base=0"):
        merge_changes(table, "foreign")
    assert merge_changes(table, "foreign", base=1).inserted == 1
    put(branch, (3, 3))
    assert merge_changes(table, "foreign").inserted == 1
    assert [row[0] for row in rows(table)] == [1, 2, 3]
    with pytest.raises(NotFoundError, match=r"base=99 is no state of branch 'foreign' or of its table: .*1 to 3"):
        merge_changes(table, "foreign", base=99)
    with pytest.raises(NotFoundError, match=r"base='x' is no state of branch .*has no version 'x'"):
        merge_changes(table, "foreign", base="x")


@pytest.mark.parametrize("base", [1, "1", "begin", "foreign.1", "main.begin"])
def test_a_base_is_named_as_any_other_state(tmp_path: Path, base: int | str) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    write_tag(table, "begin", table.snapshots.get(1))
    branch = fork(table, "foreign", is_known=False)
    put(branch, (2, 2))

    assert merge_changes(table, "foreign", base=base, dry_run=True).inserted == 1


def test_a_base_in_a_third_branch_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(fork(table, "foreign", is_known=False), (2, 2))
    fork(table, "other")

    with pytest.raises(InvalidRequestError, match=r"base='other\.1' is a state of branch 'other'"):
        merge_changes(table, "foreign", base="other.1")


def test_a_branch_of_paimon_is_merged_from_its_tag(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged")
    found = merge_changes(table, "b1", base="t1", on_conflict="branch")

    assert found.conflicts["id"].to_pylist() == [1]
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == {
        1: "branch one",
        2: "dos",
        5: "five",
        6: "six",
        7: "seven",
        10: "ten",
        11: "eleven",
    }


def test_a_branch_that_was_rolled_back_behind_its_merge_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1), keys=())
    put(branch_of(table), (2, 2))
    merged(table)
    branch = branch_of(table)
    Path(branch.paths.snapshot(2)).unlink()
    Path(branch.paths.latest_hint).unlink()
    put(branch_of(in_new_process(table.path)), (3, 3))

    with pytest.raises(InvalidRequestError, match=r"was merged up to snapshot 2 .*rolled back since.*base="):
        merge_changes(in_new_process(table.path), "b")


def test_columns_of_one_side_alone_are_refused_with_the_way_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1))
    by_branch = altered(branch_of(table), AddColumn("more", "INT"))
    with pytest.raises(
        InvalidRequestError, match=r"branch 'b' has column\(s\) more INT, which table t lacks: add them"
    ):
        merged(table)
    both = altered(table, AddColumn("more", "INT"))
    by_branch.write(pa.table({"id": pa.array([2], pa.int64()), "more": pa.array([7], pa.int32())}))
    assert merged(both).upserted == 1
    assert both.to_arrow(where="id = 2")["more"].to_pylist() == [7]
    more = altered(both, AddColumn("other", "INT"))
    with pytest.raises(InvalidRequestError, match="which branch 'b' lacks: rows of the branch would empty them"):
        merged(more)


@pytest.mark.parametrize(
    "options", [{"merge-engine": "aggregation"}, {"sequence.field": "amount"}, {"ignore-delete": "true"}]
)
def test_tables_that_do_not_keep_the_last_row_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    table = table_of(tmp_path, (1, 1), options=options)
    with pytest.raises(UnsupportedError, match="a merge by key would not give the merged rows"):
        merged(table)


def test_rules_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, (1, 1))
    for rules, said in (
        ("theirs", "on_conflict is 'theirs'; use fail, branch, main, or for single columns"),
        ({"amount": "add"}, "on_conflict of column 'amount' is 'add'; use fail, branch, main, sum"),
        ({"id": "branch"}, "on_conflict names id; expected columns of table t that are not of its key"),
        ({"note": "sum"}, "the rule sum is for numbers, the column is STRING"),
        ({"*": "sum"}, r"on_conflict of '\*', all other columns, is sum"),
    ):
        with pytest.raises(InvalidRequestError, match=said):
            merge_changes(table, "b", on_conflict=rules)
    other = table_of(tmp_path / "append", keys=())
    with pytest.raises(InvalidRequestError, match="has no primary key, so its rows change as a whole"):
        merge_changes(other, "b", on_conflict={"amount": "sum"})
    with pytest.raises(NotFoundError, match="has no branch 'x'"):
        merge_changes(table, "x")
    with pytest.raises(InvalidRequestError, match="branch 'main' cannot be merged into 'main' of table t"):
        merge_changes(table, "main")
    with pytest.raises(InvalidRequestError, match="branch 'main' cannot be merged into 'b' of table t"):
        merge_changes(branch_of(table), "main", base=1)
