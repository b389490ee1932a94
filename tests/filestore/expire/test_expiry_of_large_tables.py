"""What an expiry leaves out in tables with many snapshots, branches, tags and files, and when it may not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.expire import compared_line, line_breaks, references
from lakelog.filestore.expire.references import References
from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache
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
