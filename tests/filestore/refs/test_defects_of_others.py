"""What users of Paimon met with tags, branches and changes of a range: each defect as a case of its own.

Two more have their cases elsewhere: a drop while a neighbouring tag cannot be read (paimon#6479) in `test_tags`, and
streams that see a restore (paimon#8139) in `tests.spark.source.test_restored`. paimon#6425 is about tags in Iceberg
metadata, which lakelog does not write.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any  # Any: keywords of reads

import pyarrow as pa
import pytest

from lakelog.catalog.verbs.table import Table
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import UNSYNCED, in_new_process

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
LOOKUP = {"changelog-producer": "lookup"}
NO_AGE = timedelta(days=-1)
Change = tuple[str, int, str | None]


def make(folder: Path, **options: str) -> Table:
    given = {"bucket": "1"} | {key.replace("_", "-"): text for key, text in options.items()}
    return Table(FileStoreTable.create(folder / "t", build_schema(SCHEMA, primary_keys="k", options=given), UNSYNCED))


def put(table: Table, *rows: tuple[int, str | None]) -> None:
    keys, values = zip(*rows, strict=True)
    table.write(pa.table([pa.array(keys, pa.int64()), pa.array(values, pa.string())], schema=SCHEMA))


def expire(table: Table) -> None:
    table.upkeep.expire_snapshots(retain_min=1, retain_max=1, older_than="0 s")


def clean(table: Table) -> None:
    table.upkeep.remove_orphan_files(older_than=NO_AGE, dry_run=False, allow_young=True)


def rows(table: Table, **which: Any) -> dict[int, str | None]:
    found = Table(in_new_process(table.path)).branch(table.store.branch).to_arrow(**which)
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def audited(table: Table, *, after: int, up_to: int | None = None) -> Counter[Change]:
    found = table.system.table("audit_log", after=after, up_to=up_to).to_arrow()
    return Counter((row["rowkind"], row["k"], row["v"]) for row in found.to_pylist())


def newest(table: Table) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.id


def test_an_expiry_in_a_branch_keeps_what_tags_of_the_branch_name(tmp_path: Path) -> None:  # paimon#9867
    table = make(tmp_path)
    put(table, (1, "main"))
    table.branches.create("b")
    branch = table.branch("b")
    put(branch, (1, "branch"))
    branch.tags.create("kept")
    for number in (1, 2):
        put(branch, (1, f"later {number}"), (2, "new"))
        branch.compact(full=True)
    expire(branch)
    clean(table)
    assert rows(branch, tag="kept") == {1: "branch"}
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_a_tag_is_that_of_the_line_that_is_read(tmp_path: Path) -> None:  # paimon#9044
    table = make(tmp_path)
    put(table, (1, "main"))
    table.branches.create("b")
    branch = table.branch("b")
    put(branch, (1, "branch"))
    table.tags.create("same")
    branch.tags.create("same")
    branch.tags.create("own")
    assert (rows(table, tag="same"), rows(branch, tag="same")) == ({1: "main"}, {1: "branch"})
    assert rows(table, version="b.own") == {1: "branch"}
    assert not table.tags.__contains__("own")


def test_a_branch_stays_when_the_tag_that_it_was_made_from_is_deleted(tmp_path: Path) -> None:  # paimon#6272
    table = make(tmp_path)
    put(table, (1, "a"))
    table.tags.create("t")
    table.branches.create("b", tag="t")
    put(table, (1, "b"))
    table.compact(full=True)
    table.tags.delete("t")
    expire(table)
    clean(table)
    assert rows(table.branch("b")) == {1: "a"}
    table.branch("b").tags.delete("t")
    expire(table.branch("b"))
    clean(table)
    assert rows(table.branch("b")) == {1: "a"}


def test_a_branch_is_made_from_a_tag_whose_snapshot_has_expired(tmp_path: Path) -> None:  # paimon#8748
    table = make(tmp_path)
    put(table, (1, "a"))
    table.tags.create("t")
    put(table, (1, "b"))
    expire(table)
    assert [snapshot.id for snapshot in table.snapshots()] == [2]
    table.branches.create("b", tag="t")
    assert rows(table.branch("b")) == {1: "a"}
    put(table.branch("b"), (2, "c"))
    assert (rows(table.branch("b")), rows(table)) == ({1: "a", 2: "c"}, {1: "b"})


@pytest.mark.parametrize("missing", ["base", "delta"])
def test_a_tag_that_lacks_a_list_takes_no_file_of_others_with_it(tmp_path: Path, missing: str) -> None:  # paimon#6479
    table = make(tmp_path)
    for number in range(4):
        put(table, (number, "a"))
    for number in (1, 2, 3):
        table.tags.create(f"t{number}", snapshot_id=number)
    held = table.tags.get("t2").snapshot
    expire(table)
    name = held.base_manifest_list if missing == "base" else held.delta_manifest_list
    Path(table.store.paths.manifest(name)).unlink()
    Table(in_new_process(table.path)).tags.delete("t2")
    assert rows(table) == dict.fromkeys(range(4), "a")
    assert rows(table, tag="t1") == {0: "a"}
    assert rows(table, tag="t3") == dict.fromkeys(range(3), "a")


def test_every_event_of_a_range_is_in_it(tmp_path: Path) -> None:  # paimon#5322
    table = make(tmp_path, **LOOKUP)
    put(table, (1, "A"))
    put(table, (2, "B"))
    before = newest(table)
    table.delete("k = 2")
    deleted = newest(table)
    put(table, (3, "C"))
    assert audited(table, after=0) == Counter([("+I", 1, "A"), ("+I", 2, "B"), ("-D", 2, "B"), ("+I", 3, "C")])
    assert audited(table, after=before, up_to=deleted) == Counter([("-D", 2, "B")])


def test_changes_that_a_compaction_gives_are_in_the_range_that_ends_with_it(tmp_path: Path) -> None:  # paimon#5709
    table = make(tmp_path, **LOOKUP, write_only="true")
    put(table, (1, "a"), (2, "b"))
    table.delete("k = 1")
    put(table, (11, "a"), (2, "bb"))
    written = newest(table)
    table.compact(full=True)
    assert newest(table) == written + 1
    state: dict[int, str | None] = {}
    for kind, key, value in audited(table, after=0):
        if kind in ("+I", "+U"):
            state[key] = value
    assert state == rows(table) == {2: "bb", 11: "a"}


def test_a_delete_of_a_partial_update_that_removes_rows_is_in_the_audit_log(tmp_path: Path) -> None:  # paimon#5847
    engine = {"merge_engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = make(tmp_path, **LOOKUP, **engine)  # paimon#6021 is its mending
    put(table, (1, "2"), (3, "4"))
    before = newest(table)
    table.write(pa.table([pa.array([3]), pa.array(["4"])], schema=SCHEMA), row_kinds="-D")
    assert rows(table) == {1: "2"}
    assert audited(table, after=before) == Counter([("-D", 3, "4")])


@pytest.mark.parametrize("compare", ["auto", "states"])
def test_deletes_of_a_range_outlive_a_compaction_of_young_files(tmp_path: Path, compare: str) -> None:  # paimon#5115
    table = make(tmp_path, write_only="true", **{"num-sorted-run.compaction-trigger": "2"})
    put(table, (1, "a"), (2, "b"), (3, "c"))
    table.compact(full=True)
    before = newest(table)
    table.delete("k = 2")
    put(table, (3, "cc"))
    assert table.compact() is not None
    found = [row for batch in table.changes(after=before, compare=compare) for row in batch.to_pylist()]
    last = {row["k"]: (row["_row_kind"], row["v"]) for row in found if row["_row_kind"] != "-U"}
    assert last[2][0] == "-D"
    assert last[3][1] == "cc"
    assert last.keys() == {2, 3}


def test_a_restore_is_in_the_changes_of_a_range(tmp_path: Path) -> None:  # paimon#8139
    table = make(tmp_path)
    put(table, (1, "a"))
    put(table, (1, "b"), (2, "c"))
    table.restore(snapshot_id=1)
    last = {row["k"]: row for batch in table.changes(after=2) for row in batch.to_pylist()}
    assert (last[1]["_row_kind"] in ("+I", "+U"), last[1]["v"], last[2]["_row_kind"]) == (True, "a", "-D")
    assert last.keys() == {1, 2}


def test_a_tag_of_an_expired_snapshot_is_read(tmp_path: Path) -> None:  # as paimon#6425, which is about Iceberg's
    table = make(tmp_path)
    put(table, (1, "a"))
    table.tags.create("daily")
    put(table, (1, "b"))
    expire(table)
    assert (rows(table, tag="daily"), rows(table)) == ({1: "a"}, {1: "b"})
