"""The audit log: deletes are right before and after a compaction, and the changes of a range lead to its end.

Users of Paimon met audit logs and incremental results that lacked deletes, or showed deleted rows again: paimon#5322,
#5709, #6021, #6698.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import open_system_table
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete
from tests.support.examples import rest_in_full
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
    ]
)
KINDS: dict[str, Mapping[str, str]] = {
    "deduplicate": {"bucket": "2"},
    "dynamic buckets": {"bucket": "-1"},
    "sequence field": {"bucket": "1", "sequence.field": "v"},
    "aggregation": {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "changelog input": {"bucket": "1", "changelog-producer": "input"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "first row": {"bucket": "1", "merge-engine": "first-row", "changelog-producer": "none"},
    "append": {"bucket": "-1"},
}
Row = tuple[str, int, int | None]


def new_table(folder: Path, kind: str) -> FileStoreTable:
    keys = [] if kind == "append" else ["day", "id"]
    options = {"num-sorted-run.compaction-trigger": "3", **KINDS[kind]}
    schema = build_schema(SCHEMA, primary_keys=keys, partition_keys=["day"], options=options)
    return FileStoreTable.create(folder / "t", schema, UNSYNCED)


def rows(*values: Row) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*values, strict=True), strict=True)), schema=SCHEMA)


def state(table: FileStoreTable, snapshot_id: int | None) -> Counter[Row]:
    if snapshot_id == 0:
        return Counter()
    return Counter((row["day"], row["id"], row["v"]) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist())


def applied(start: Counter[Row], changes: pa.Table, *, has_key: bool) -> Counter[Row]:
    """The rows after changes: with key the last change of a key counts."""
    if not has_key:
        found = Counter(start)
        for row in changes.to_pylist():
            found[row["day"], row["id"], row["v"]] += 1 if row["rowkind"] in ("+I", "+U") else -1
        return +found
    by_key = {row[:2]: row for row in start}
    for row in changes.to_pylist():
        key = (row["day"], row["id"])
        if row["rowkind"] in ("+I", "+U"):
            by_key[key] = (*key, row["v"])
        else:
            by_key.pop(key, None)
    return Counter(by_key.values())


def act(table: FileStoreTable, kind: str, chance: random.Random) -> None:
    """One commit of a random kind."""
    some = [(chance.choice("ab"), chance.randrange(6), chance.randrange(100)) for _ in range(chance.randrange(1, 5))]
    if kind != "append":
        some = list({row[:2]: row for row in some}.values())
    can_delete = kind in ("deduplicate", "dynamic buckets", "changelog input")
    match chance.randrange(6):
        case 0 if can_delete:
            delete(table, f"id < {chance.randrange(4)}")
        case 1:
            table.write(rows(*some), mode="overwrite-partitions")
        case 2:
            table.compact(full=True)
        case 3:
            table.write(rows(*some), mode="overwrite")
        case _:
            table.write(rows(*some))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", rest_in_full(range(3), 1))
def test_the_changes_of_every_range_lead_from_its_start_to_its_end(tmp_path: Path, kind: str, seed: int) -> None:
    table, chance = new_table(tmp_path, kind), random.Random(f"{kind}{seed}")
    for _ in range(8):
        act(table, kind, chance)
    newest = table.snapshots.latest_id()
    assert newest is not None
    for _ in range(4):
        after, up_to = sorted(chance.sample(range(newest + 1), 2))
        changes = open_system_table(table, "audit_log", after=after, up_to=up_to).to_arrow()
        assert applied(state(table, after), changes, has_key=kind != "append") == state(table, up_to), (after, up_to)


@pytest.mark.parametrize("kind", ["deduplicate", "dynamic buckets", "changelog input", "deletion vectors"])
def test_no_row_is_live_and_deleted_at_once(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, kind)
    table.write(rows(("a", 1, 1), ("a", 2, 2), ("b", 3, 3)))
    table.compact(full=True)
    delete(table, "id >= 2")
    table.write(rows(("b", 3, 30)))
    for compacts in (False, True):
        if compacts:
            table.compact(full=True)
        shown = open_system_table(table, "audit_log").to_arrow().to_pylist()
        live = Counter((row["day"], row["id"], row["v"]) for row in shown if row["rowkind"] in ("+I", "+U"))
        deleted = {(row["day"], row["id"]) for row in shown if row["rowkind"] == "-D"}
        assert live == state(table, None)
        assert not deleted & {row[:2] for row in live}


def test_a_delete_is_shown_until_the_files_drop_it(tmp_path: Path) -> None:
    table = new_table(tmp_path, "deduplicate")
    table.write(rows(("a", 1, 1), ("a", 2, 2)))
    delete(table, "id = 2")
    shown = open_system_table(table, "audit_log").to_arrow(columns=["rowkind", "id"], where="id = 2")
    assert shown.to_pylist() == [{"rowkind": "-D", "id": 2}]
    table.compact(full=True)
    assert open_system_table(table, "audit_log").to_arrow(where="id = 2").num_rows == 0


def test_the_deletes_of_a_range_stay_after_a_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path, "deduplicate")
    table.write(rows(("a", 1, 1), ("a", 2, 2)))
    delete(table, "id = 2")
    before = open_system_table(table, "audit_log", after=1, up_to=2).to_arrow()
    table.compact(full=True)
    assert before.to_pylist() == [{"rowkind": "-D", "day": "a", "id": 2, "v": 2}]
    assert open_system_table(table, "audit_log", after=1, up_to=3).to_arrow() == before


def test_the_rows_that_an_overwrite_removes_are_deletes(tmp_path: Path) -> None:
    table = new_table(tmp_path, "append")
    table.write(rows(("a", 1, 1), ("a", 1, 1), ("b", 2, 2)))
    table.write(rows(("a", 1, 1), ("a", 9, 9)), mode="overwrite-partitions")
    changes = open_system_table(table, "audit_log", after=1).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in changes] == [("-D", "a", 1, 1), ("+I", "a", 9, 9)]


def test_an_update_in_the_binlog_has_the_old_value_before_the_new_one(tmp_path: Path) -> None:
    table = new_table(tmp_path, "sequence field")
    table.write(rows(("a", 1, 1), ("a", 2, 1)))
    table.write(rows(("a", 1, 5), ("a", 2, 0), ("a", 3, 3)))  # the row of key 2 is late
    found = open_system_table(table, "binlog", after=1).to_arrow().to_pylist()
    assert sorted((row["rowkind"], row["id"], row["v"]) for row in found) == [("+I", [3], [3]), ("+U", [1, 1], [1, 5])]


def test_the_binlog_of_a_snapshot_has_one_value_a_list(tmp_path: Path) -> None:
    table = new_table(tmp_path, "deduplicate")
    table.write(rows(("a", 1, 1)))
    assert open_system_table(table, "binlog").to_arrow().to_pylist() == [
        {"rowkind": "+I", "day": ["a"], "id": [1], "v": [1]}
    ]


def test_the_optimized_table_shows_the_last_full_compaction(tmp_path: Path) -> None:
    table = new_table(tmp_path, "deduplicate")
    table.write(rows(("a", 1, 1)))
    assert open_system_table(table, "ro").to_arrow().num_rows == 0
    table.compact(full=True)
    table.write(rows(("a", 1, 2), ("a", 2, 2)))
    assert open_system_table(table, "ro").to_arrow().to_pylist() == [{"day": "a", "id": 1, "v": 1}]


def test_rows_without_numbers_have_no_row_tracking(tmp_path: Path) -> None:
    table = new_table(tmp_path, "append")
    with pytest.raises(InvalidRequestError, match=r"has no row-tracking.enabled=true"):
        open_system_table(table, "row_tracking").to_arrow()


def test_a_range_goes_with_the_audit_log_alone(tmp_path: Path) -> None:
    table = new_table(tmp_path, "append")
    with pytest.raises(InvalidRequestError, match="after and up_to go with audit_log, binlog"):
        open_system_table(table, "files", after=1)


def test_a_range_with_expired_changes_is_never_given_in_part(tmp_path: Path) -> None:
    table = new_table(tmp_path, "deduplicate")
    for number in range(3):
        table.write(rows(("a", number, 1)))
    table.snapshots.get(1)
    (Path(table.path) / "snapshot/snapshot-1").unlink()
    with pytest.raises(NotFoundError, match="changes of snapshot 1 of table t do not exist"):
        open_system_table(table, "audit_log", after=0).to_arrow()
