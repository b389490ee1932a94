"""What an expiry leaves out in tables with many snapshots, branches, tags and files, and when it may not."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.expire import compared_line, line_breaks, references
from lakelog.filestore.expire.references import References
from lakelog.filestore.io import local_files
from lakelog.filestore.metadata.snapshots import tag_holds
from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache
from lakelog.filestore.metadata.snapshots.tag_reading import TagReader
from lakelog.filestore.metadata.tables import forks
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.foreign_engine import roll_back_as_others_do

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
)


def rows(*ids: int, partition: int = 0) -> pa.Table:
    return pa.table({"p": [partition] * len(ids), "id": ids, "v": ["x"] * len(ids)}, schema=SCHEMA)


def new_table(folder: Path) -> Table:
    options = {"bucket": "1", "write-only": "true"}
    return Catalog(folder).create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "id"], partition_keys=["p"], options=options
    )


def ids(table: Table, **which: str) -> list[int]:
    return sorted(table.to_arrow(**which)["id"].to_pylist())  # type: ignore[arg-type]  # the keys of a choice


def expire(table: Table, *, keep: int) -> None:
    table.upkeep.expire_snapshots(retain_max=keep, retain_min=1)


@pytest.fixture(autouse=True)
def _new_process() -> None:
    line_breaks._compared.clear()
    tag_holds._listed.clear()
    forks._read.clear()


def make_old(file: Path) -> None:
    """Give a file a time after which every change has another one."""
    hour_ago = file.stat().st_mtime_ns - 3_600_000_000_001
    os.utime(file, ns=(hour_ago, hour_ago))


def table_of_replacements(folder: Path, count: int) -> Table:
    """A table whose snapshots each have one row, the number of the snapshot, in place of those before."""
    table = new_table(folder)
    for number in range(1, count + 1):
        table.write(rows(number), mode="overwrite")
    return table


def test_a_branch_that_began_after_what_expires_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    for number in range(4):
        table.write(rows(number), mode="overwrite")
    table.branches.create("late")
    table.write(rows(9), mode="overwrite")
    read: list[str] = []
    monkeypatch.setattr(References, "add_branch", lambda self, history: read.append(history.branch))
    expire(table, keep=2)
    assert read == []
    monkeypatch.undo()
    assert ids(table.branch("late")) == [3]
    expire(table, keep=1)
    assert ids(table.branch("late")) == [3]


def test_a_branch_of_a_line_that_was_rolled_back_keeps_its_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(5):
        table.write(rows(number))
    table.branches.create("b")  # at snapshot 5 of a line that ends
    path = table.path
    roll_back_as_others_do(FileStoreTable.open(path), 1)
    table = Catalog(tmp_path).load_table("db.t")
    for number in range(10, 16):
        table.write(rows(number), mode="overwrite")  # snapshot 2 and later ones of another line
    expire(table, keep=3)  # the oldest that stays has a lower number than the one at which the branch began
    assert min(snapshot.id for snapshot in table.snapshots()) <= 5
    assert ids(table.branch("b")) == [0, 1, 2, 3, 4]


def test_names_of_other_partitions_are_not_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "_WHOLE_MAX", 0)
    table = new_table(tmp_path)
    for partition in range(4):
        table.write(rows(partition, partition=partition))
    table.tags.create("kept")
    for number in range(10, 13):
        table.write(rows(number, partition=2), mode="overwrite-partitions")
    collected: list[set[str]] = []
    add_state = References.add_state

    def recording(self: References, snapshot: object) -> None:
        add_state(self, snapshot)  # type: ignore[arg-type]  # as it was called
        collected.append({name for name in self.names if name.startswith("data-")})

    monkeypatch.setattr(References, "add_state", recording)
    expire(table, keep=1)
    assert [len(names) for names in collected] == [1]  # the file of partition 2 in the tag
    assert ids(table, tag="kept") == [0, 1, 2, 3]
    assert ids(table) == [0, 1, 3, 12]


def test_another_process_does_not_compare_again_what_one_has_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared_line, "_WRITTEN_EVERY", 2)
    table = new_table(tmp_path)
    for number in range(8):
        table.write(rows(number))
    expire(table, keep=6)
    newest = table.store.snapshots.latest_id()
    line_breaks._compared.clear()
    compared: list[int] = []
    continues = LiveFilesCache.continues

    def counting(self: LiveFilesCache, earlier: object, later: object) -> bool:
        compared.append(later.id)  # type: ignore[attr-defined]  # a snapshot
        return continues(self, earlier, later)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(LiveFilesCache, "continues", counting)
    table.write(rows(8))
    expire(table, keep=4)
    assert compared
    assert newest is not None
    assert min(compared) > newest


@pytest.mark.parametrize("how", ["replaced", "damaged"])
def test_what_was_compared_of_another_line_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(compared_line, "_WRITTEN_EVERY", 1)
    table = new_table(tmp_path)
    for number in range(6):
        table.write(rows(number))
    expire(table, keep=5)
    file = Path(table.path, "lakelog", "compared")
    assert compared_line.read_compared(table.store, 2) is not None
    if how == "damaged":
        file.write_text(file.read_text().replace('"firstId": ', '"firstId": 1'))
    else:
        roll_back_as_others_do(FileStoreTable.open(table.path), 5)
        table = Catalog(tmp_path).load_table("db.t")
        table.write(rows(9))
        table.write(rows(10))
    assert compared_line.read_compared(table.store, 2) is None


def test_a_second_expiry_of_a_process_reads_no_tag_and_no_start_of_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "_SETTLED_NANOS", 0)
    table = table_of_replacements(tmp_path, 8)
    table.tags.create("t")
    table.branches.create("b")
    for file in Path(table.path, "tag").iterdir():
        make_old(file)
    expire(table, keep=6)
    read: list[str] = []

    def read_tag(_: TagReader, name: str) -> None:
        read.append(name)

    def read_fork(_: object, branch: str) -> None:
        read.append(branch)

    monkeypatch.setattr(TagReader, "find_tag", read_tag)
    monkeypatch.setattr(forks, "read_fork", read_fork)
    expire(table, keep=4)
    assert read == []
    monkeypatch.undo()
    expire(table, keep=1)
    assert ids(table, tag="t") == ids(table.branch("b")) == [8]


@pytest.mark.parametrize("how", ["in place", "by a rename"])
def test_a_tag_that_is_replaced_between_two_expiries_of_a_process_keeps_its_files(tmp_path: Path, how: str) -> None:
    table = table_of_replacements(tmp_path, 8)
    table.tags.create("t", snapshot_id=8)
    file = Path(table.path, "tag", "tag-t")
    make_old(file)
    expire(table, keep=7)
    expire(table, keep=6)
    if how == "in place":  # as Paimon does in a local folder
        size = file.stat().st_size
        content = Path(table.path, "snapshot", "snapshot-4").read_bytes()
        file.write_bytes(content.ljust(size))  # of the same size, as far as the name of a tag allows
        assert file.stat().st_size == size
    else:
        table.tags.create("t", snapshot_id=4, replace=True)
    expire(table, keep=1)
    assert ids(table, tag="t") == [4]


@pytest.mark.parametrize("how", ["deleted and created anew", "created"])
def test_a_branch_that_is_made_between_two_expiries_of_a_process_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(local_files, "_SETTLED_NANOS", 0)
    table = table_of_replacements(tmp_path, 8)
    if how != "created":
        table.branches.create("b")
    expire(table, keep=7)
    expire(table, keep=6)
    if how != "created":
        assert str(Path(table.path, "branch", "branch-b", "lakelog", "fork")) in forks._read
        table.branches.delete("b")
    table.branches.create("b", snapshot_id=4)
    # Other engines do not know the tags by which lakelog keeps the files of a branch.
    for tag in Path(table.path, "tag").glob("tag-lakelog-fork-*"):
        tag.unlink()
    expire(table, keep=1)
    assert ids(table.branch("b")) == [4]


def test_what_a_process_knows_of_a_line_does_not_count_after_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "_SETTLED_NANOS", 0)
    table = new_table(tmp_path)
    for number in range(6):
        table.write(rows(number))
    table.branches.create("b", snapshot_id=5)
    table.write(rows(6))
    expire(table, keep=6)
    assert line_breaks.known_commits(table.store).get(5) is not None
    roll_back_as_others_do(FileStoreTable.open(table.path), 3)
    table = Catalog(tmp_path).load_table("db.t")
    for number in range(10, 16):
        table.write(rows(number), mode="overwrite")  # snapshot 4 and later ones of another line
    for tag in Path(table.path, "tag").glob("tag-lakelog-fork-*"):
        tag.unlink()
    expire(table, keep=5)
    assert min(snapshot.id for snapshot in table.snapshots()) == 5
    assert ids(table.branch("b")) == [0, 1, 2, 3, 4]
