"""Deletion vectors that compactions write: which rows they take away, and what happens when others change the table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.types import DataField
from lakelog.filestore.compact.ahead import compacted_ahead
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.compact.picking import CompactUnit
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.encoding.roaring import decode_roaring, encode_roaring
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.index.deletion_vectors import DeletionFile, encode_vectors, read_positions
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import SortedRun
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.refs import create_branch
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete, drop_partitions, merge_changes, upkeep_verbs
from lakelog.filestore.verbs.write_verbs import WriteMode
from lakelog.filestore.write.table_write import Overwrite, TableWrite
from lakelog.filestore.write.write import starting_at, write_rows
from tests.support.examples import examples
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import UNSYNCED, append_anyhow

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
    ]
)
DELETE = 3
MANY = 3_000
positions = st.sets(st.integers(0, 1 << 18) | st.integers(0, (1 << 32) - 1), max_size=60)


def make(folder: Path, options: Mapping[str, str] | None = None, file_io: FileIO = UNSYNCED) -> FileStoreTable:
    given_options = {"bucket": "1", "deletion-vectors.enabled": "true", **(options or {})}
    schema = build_schema(SCHEMA, primary_keys=["p", "id"], partition_keys=["p"], options=given_options)
    return FileStoreTable.create(folder / "t", schema, file_io)


def rows(*given: tuple[int, int, int | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def content(table: FileStoreTable, snapshot_id: int | None = None) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist())


def vector_count(table: FileStoreTable) -> int:
    found = deletion_files(table, table.snapshots.latest())
    return sum(file.cardinality or 0 for bucket in found.values() for file in bucket.values())


@given(numbers=positions, dense=st.booleans())
def test_bitmaps_come_back(numbers: set[int], dense: bool) -> None:
    if dense:
        numbers = numbers | set(range(70_000, 76_000))
    given_numbers = np.array(sorted(numbers), np.uint32)
    data = encode_roaring(given_numbers)
    found, size = decode_roaring(data + b"behind")
    assert found.tolist() == given_numbers.tolist()
    assert size == len(data)


def test_an_index_file_has_the_bytes_that_paimon_writes() -> None:
    data, ranges = encode_vectors({"data-x.parquet": np.array([0], np.uint64)}, is_64_bit=False)
    expected = "01 00000016 5e43f2d0 3a30000001000000 00000000 10000000 0000 e33060d3"
    assert data == bytes.fromhex(expected)
    assert [(one.file_name, one.offset, one.length, one.cardinality) for one in ranges] == [
        ("data-x.parquet", 1, 22, 1)
    ]


@pytest.mark.parametrize("is_64_bit", [False, True])
@given(vectors=st.dictionaries(st.text("abc", min_size=1), positions, max_size=4))
def test_vectors_come_back(
    tmp_path_factory: pytest.TempPathFactory, is_64_bit: bool, vectors: dict[str, set[int]]
) -> None:
    high = 1 << 40 if is_64_bit else 0
    wanted = {
        name: sorted(number + (high if number % 2 else 0) for number in numbers) for name, numbers in vectors.items()
    }
    data, ranges = encode_vectors(
        {name: np.array(numbers, np.uint64) for name, numbers in wanted.items()}, is_64_bit=is_64_bit
    )
    path = tmp_path_factory.mktemp("index") / "index"
    path.write_bytes(data)
    found = {
        one.file_name: read_positions(
            UNSYNCED,
            DeletionFile(path=str(path), offset=one.offset, length=one.length, cardinality=one.cardinality),
        ).tolist()
        for one in ranges
    }
    assert found == wanted


def test_overwritten_and_deleted_rows_are_marked_and_reads_do_not_merge(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(*((1, id, 0) for id in range(100))))
    table.write(rows(*((1, id, 1) for id in range(10, 20))))
    table.write(rows((1, 15, None), (1, 50, None)), kinds=pa.array([DELETE, DELETE], pa.int8()))
    expected = [(1, id, 1 if 10 <= id < 20 else 0) for id in range(100) if id not in (15, 50)]
    assert content(table) == expected
    assert vector_count(table) == 12
    files = [entry.file for entry in table.live_files.of(table.snapshots.latest()).entries()]
    assert {file.level > 0 and file.delete_row_count == 0 for file in files} == {True}
    assert content(table, 2) == [(1, id, 0) for id in range(100)]

    table.compact(full=True)
    assert content(table) == expected
    assert vector_count(table) == 0
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.index_manifest is None


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_full_compaction_drops_the_vectors_of_a_single_run(tmp_path: Path, producer: str) -> None:
    """Files that have vectors are written anew, large ones beside them stay as they are, and no change is written."""
    options = {"target-file-size": "6 kb", "file.block-size": "1 kb", "changelog-producer": producer}
    table = make(tmp_path, options)
    table.write(rows(*((1, id, id**7 % 1_000_003) for id in range(MANY))))
    table.compact(full=True)

    def files() -> dict[str, DataFileMeta]:
        live = table.live_files.of(table.snapshots.latest())
        return {entry.file.file_name: entry.file for entry in live.entries()}

    before = files()
    deleted = [10, 20, MANY // 2]
    table.write(rows(*((1, id, None) for id in deleted)), kinds=pa.array([DELETE] * len(deleted), pa.int8()))
    (vectors,) = deletion_files(table, table.snapshots.latest()).values()
    assert files().keys() == before.keys()
    assert {file.level for file in before.values()} == {5}
    assert 1 < len(vectors) < len(before) - 2
    expected = [(1, id, id**7 % 1_000_003) for id in range(MANY) if id not in deleted]
    assert content(table) == expected

    table.compact(full=False)
    assert vector_count(table) == len(deleted)
    snapshot = table.compact(full=True)
    assert snapshot is not None
    assert (snapshot.index_manifest, snapshot.changelog_manifest_list) == (None, None)
    assert content(table) == expected
    assert sum(file.row_count for file in files().values()) == len(expected)
    assert {file.level for file in files().values()} == {5}
    assert before.keys() - files().keys() == vectors.keys()
    assert table.compact(full=True) is None


def test_marking_reads_the_keys_of_older_rows_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old rows are not looked up, unless a changelog needs them."""
    read_groups = ParquetFile.read_groups
    read: set[str] = set()

    def recorded(self: ParquetFile, fields: Sequence[DataField], row_groups: Sequence[int]) -> Iterator[pa.Table]:
        read.update(field.name for field in fields)
        return read_groups(self, fields, row_groups)

    monkeypatch.setattr(ParquetFile, "read_groups", recorded)
    found = {}
    for producer in ("none", "lookup"):
        table = make(tmp_path / producer, {"changelog-producer": producer})
        table.write(rows(*((1, id, id**7 % (1 << 62)) for id in range(MANY))))
        table.compact(full=True)
        read.clear()
        table.write(rows(*((1, id, 0) for id in range(0, MANY, MANY // 10))))
        found[producer] = set(read)
        assert vector_count(table) == 10
    assert found["none"] == {"id"}
    assert found["lookup"] >= {"id", "a"}


def test_an_older_row_that_has_the_larger_sequence_number_stays_the_newest(tmp_path: Path) -> None:
    """Two writers that began from other snapshots: the rows that were compacted first may be the younger ones."""
    table = make(tmp_path, {"write-only": "true"})
    younger = [(1, id, id**7 % (1 << 62)) for id in range(MANY)]
    for sequence, given_rows in ((100, younger), (0, [(1, 1, 0), (1, MANY, 0)])):
        written = write_rows(table, rows(*given_rows), first_sequence=starting_at(sequence))
        append_anyhow(table, written.entries)
        table.compact(full=False)
    assert content(table) == [*younger, (1, MANY, 0)]


def test_rows_of_level_0_are_not_seen_before_they_are_compacted(tmp_path: Path) -> None:
    table = make(tmp_path, {"write-only": "true"})
    table.write(rows((1, 1, 1)))
    assert content(table) == []
    table.compact(full=False)
    assert content(table) == [(1, 1, 1)]


def test_dropped_partitions_take_their_vectors_along(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(*((partition, id, 0) for partition in (1, 2) for id in range(MANY))))
    table.write(rows((1, 1, 1), (2, 1, 1), (2, 2, 1)))
    assert vector_count(table) == 3
    drop_partitions(table, "p = 1")
    assert vector_count(table) == 2
    assert content(table)[:4] == [(2, 0, 0), (2, 1, 1), (2, 2, 1), (2, 3, 0)]


def test_a_compaction_that_missed_deletions_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, {"write-only": "true"})
    table.write(rows((1, 1, 0), (1, 2, 0)))
    table.compact(full=True)
    table.write(rows((1, 1, 1)))
    work = due_work(table, table.snapshots.latest(), None, lambda _, files, __: pick_unit(table, files))
    lifted = compact_bucket(table, work[0])
    full = compact_bucket(
        table,
        due_work(table, table.snapshots.latest(), None, lambda _, files, __: pick_unit(table, files, is_full=True))[0],
    )
    assert lifted is not None
    assert full is not None
    commit_results(table, [lifted])
    with pytest.raises(ConflictError, match="is no longer live"):
        commit_results(table, [full])
    assert content(table) == [(1, 1, 1), (1, 2, 0)]


def test_marks_made_meanwhile_are_not_lost_to_a_rewrite(tmp_path: Path) -> None:
    """One compaction marks a row of a file, another that has not seen the mark rewrites the file."""
    table = make(tmp_path, {"write-only": "true"})
    table.write(rows(*((1, id, id**5 % 1_000_003) for id in range(MANY))))
    table.compact(full=True)
    table.write(rows((1, 2, 1)))
    table.compact(full=False)
    (work,) = due_work(table, table.snapshots.latest(), None, oldest_run)
    rewritten = compact_bucket(table, work)
    assert rewritten is not None
    table.write(rows((1, 1, 1)))
    table.compact(full=False)
    with pytest.raises(ConflictError, match="deleted by another writer"):
        commit_results(table, [rewritten])
    assert content(table)[:4] == [(1, 0, 0), (1, 1, 1), (1, 2, 1), (1, 3, 243)]

    (work,) = due_work(table, table.snapshots.latest(), None, oldest_run)
    rewritten = compact_bucket(table, work)
    assert rewritten is not None
    commit_results(table, [rewritten])
    assert vector_count(table) == 0
    assert content(table)[:4] == [(1, 0, 0), (1, 1, 1), (1, 2, 1), (1, 3, 243)]


def oldest_run(_: BucketId, files: Sequence[DataFileMeta], __: Collection[str]) -> CompactUnit:
    """Rewrite the largest file where it is."""
    file = max(files, key=lambda file: file.row_count)
    return CompactUnit(inputs=(SortedRun(level=file.level, files=(file,)),), output_level=file.level)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"merge-engine": "first-row"}, InvalidRequestError, "does not go with merge-engine=first-row"),
        ({"changelog-producer": "full-compaction"}, InvalidRequestError, "changelog-producer=full-compaction"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(tmp_path, options)


changes = st.tuples(
    st.integers(1, 2), st.integers(0, 12), st.none() | st.integers(0, 5), st.sampled_from([0, 0, 0, DELETE])
)


Changed = tuple[int, int, int | None, int]
State = dict[tuple[int, int], int | None]


def write_changes(table: FileStoreTable, batch: Sequence[Changed], state: State) -> None:
    table.write(rows(*(row[:3] for row in batch)), kinds=pa.array([row[3] for row in batch], pa.int8()))
    for partition, key, value, kind in batch:
        state.pop((partition, key), None)
        if kind != DELETE:
            state[partition, key] = value


def overwrite(table: FileStoreTable, batch: Sequence[Changed], state: State) -> None:
    table.write(rows(*(row[:3] for row in batch)), mode="overwrite")
    state.clear()
    state.update({(partition, key): value for partition, key, value, _ in batch})


def delete_first(table: FileStoreTable, batch: Sequence[Changed], state: State) -> None:
    delete(table, f"id <= {batch[0][1]}")
    for partition, key in [*state]:
        if key <= batch[0][1]:
            del state[partition, key]


VERBS = {"write": write_changes, "overwrite": overwrite, "delete": delete_first}


@settings(max_examples=examples(20))
@given(
    history=st.lists(st.lists(changes, min_size=1, max_size=8), min_size=1, max_size=10),
    options=st.fixed_dictionaries(
        {
            "deletion-vectors.bitmap64": st.sampled_from(["false", "true"]),
            "num-sorted-run.compaction-trigger": st.sampled_from(["2", "5"]),
            "changelog-producer": st.sampled_from(["none", "lookup"]),
            "bucket": st.sampled_from(["1", "2"]),
        }
    ),
    data=st.data(),
)
def test_histories_leave_the_rows_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[list[Changed]],
    options: dict[str, str],
    data: st.DataObject,
) -> None:
    """Also where a process is killed between its commit and its compaction, and another one does the same again."""
    table = make(tmp_path_factory.mktemp("t"), options)
    state: State = {}
    states: dict[int, list[tuple[object, ...]]] = {}
    for batch in history:
        verb = data.draw(st.sampled_from(["write", "write", "overwrite", "delete"]))
        run = partial(VERBS[verb], table, batch, state)
        if data.draw(st.booleans()):
            with patch.object(upkeep_verbs, "merge_due", lambda *_, **__: None):
                run()
        run()
        if data.draw(st.booleans()):
            table.compact(full=True)
        if (newest := table.snapshots.latest_id()) is not None:  # a delete of nothing
            states[newest] = [(*key, value) for key, value in sorted(state.items())]
    for snapshot_id, expected in states.items():
        assert sorted(map(str, content(table, snapshot_id))) == sorted(map(str, expected))


@pytest.mark.parametrize("where", ["id = 1", "id = 1 or id = 3"])
def test_a_delete_that_was_cut_off_before_its_compaction_is_seen_once_it_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    table = make(tmp_path)
    table.write(rows((0, 1, 1), (0, 2, 2), (1, 3, 3)))
    with monkeypatch.context() as killed:
        killed.setattr(upkeep_verbs, "merge_due", lambda *_, **__: None)
        assert delete(table, "id = 1") is not None
    assert content(table) == [(0, 1, 1), (0, 2, 2), (1, 3, 3)]  # the change waits for a compaction
    again = delete(table, where)
    assert (again is None) == (where == "id = 1")
    assert content(table) == [(0, 2, 2), (1, 3, 3)][: 1 + (again is None)]


def test_a_merge_that_was_cut_off_before_its_compaction_is_seen_once_it_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path)
    table.write(rows((0, 1, 1), (0, 2, 2)))
    create_branch(table, "dev")
    table.on_branch("dev").write(rows((0, 1, 9)))
    with monkeypatch.context() as killed:
        killed.setattr(upkeep_verbs, "merge_due", lambda *_, **__: None)
        assert merge_changes(table, "dev").snapshot_id is not None
    assert content(table) == [(0, 1, 1), (0, 2, 2)]
    assert merge_changes(table, "dev").snapshot_id is None
    assert content(table) == [(0, 1, 9), (0, 2, 2)]


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}, {"merge-engine": "first-row"}], ids=str)
@pytest.mark.parametrize("mode", ["overwrite", "overwrite-partitions"])
def test_an_overwrite_is_compacted_before_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: WriteMode, options: dict[str, str]
) -> None:
    """Its rows are read as soon as the old ones are deleted."""
    table = make(tmp_path, {"bucket": "2", "deletion-vectors.enabled": str("merge-engine" not in options), **options})
    table.write(rows((0, 1, 1), (0, 2, 2), (1, 3, 3)))
    monkeypatch.setattr(upkeep_verbs, "merge_due", lambda *_, **__: None)
    table.write(rows((0, 4, 4), (0, 5, 5), (0, 6, 6)), mode=mode)
    kept = [(1, 3, 3)] if mode == "overwrite-partitions" else []
    assert content(table) == [(0, 4, 4), (0, 5, 5), (0, 6, 6), *kept]
    assert [one.commit_kind.value for one in map(table.snapshots.get, table.snapshots.ids()[-2:])] == [
        "OVERWRITE",
        "COMPACT",
    ]


def test_an_overwrite_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows((0, 1, 1)))
    write = TableWrite(table, rows((0, 2, 2)), replaces=Overwrite.EVERYTHING)
    with compacted_ahead(table, write.entries):
        pass
    write.discard(write.paths)
    assert files_on_disk(table.path) == referenced_files(table.path)
