"""Tables with dynamic buckets: a key stays in its bucket, new ones go where there is room, and races keep it so."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    UnsupportedError,
)
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.conflicts import OvertakenError
from lakelog.filestore.encoding.bucket import hashes_of
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.index.hash_index import HashIndexChange, read_hashes
from lakelog.filestore.index.index_manifest import deletion_files, hash_index
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.options.parsing import DYNAMIC_BUCKETS_MAX
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import drop_partitions, expire_snapshots, remove_orphan_files, rescale
from lakelog.filestore.write.assigning import AssignRules, bucket_assigner, spread
from lakelog.filestore.write.table_write import TableWrite
from lakelog.filestore.write.write import write_rows
from tests.support.examples import examples, in_full
from tests.support.tables.dynamic_buckets import check_index, keys_by_bucket
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import altered_by_others, in_new_process

ROOT = Path(__file__).parents[3]
SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a", pa.int64()),
    ]
)
TARGET = 4
DELETE = 3
ONE_KEPT = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


def make(folder: Path, options: Mapping[str, str] | None = None, *, target: int = TARGET) -> FileStoreTable:
    schema = build_schema(
        SCHEMA,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options={"bucket": "-1", "dynamic-bucket.target-row-num": str(target), **(options or {})},
    )
    return FileStoreTable.create(folder / "t", schema, LocalFileIO(sync_data=False))


def rows(ids: Sequence[int], a: int = 0, *, p: int = 0) -> pa.Table:
    columns = [pa.array([p] * len(ids), pa.int32()), pa.array(ids, pa.int64()), pa.array([a] * len(ids), pa.int64())]
    return pa.table(columns, schema=SCHEMA)


def content(table: FileStoreTable, snapshot_id: int | None = None) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(snapshot_id=snapshot_id).to_pylist())


def ids_by_bucket(table: FileStoreTable) -> list[set[int]]:
    """The ids in each bucket of a table of one partition."""
    found = keys_by_bucket(table)
    return [set(found[bucket].column("id").to_pylist()) for bucket in sorted(found)]


def bucket_sizes(table: FileStoreTable, p: int = 0) -> dict[int, int]:
    """How many hashes each bucket of a partition has."""
    index = hash_index(table, table.snapshots.latest())
    wanted = [files for partition, files in index.items() if partition[12:16] == p.to_bytes(4, "little")]
    return {bucket: file.key_count for files in wanted for bucket, file in sorted(files.items())}


# Which bucket


def test_buckets_are_filled_one_after_the_other_and_keys_stay(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(6)))
    assert bucket_sizes(table) == {0: 4, 1: 2}
    assert ids_by_bucket(table) == [{0, 1, 2, 3}, {4, 5}]  # in the order of arrival
    table.write(rows([5, 6, 0, 7, 8, 3], 1))
    assert bucket_sizes(table) == {0: 4, 1: 4, 2: 1}
    assert ids_by_bucket(table) == [{0, 1, 2, 3}, {4, 5, 6, 7}, {8}]
    assert content(table) == [(0, key, 1 if key in (0, 3, 5, 6, 7, 8) else 0) for key in range(9)]
    check_index(table)


def test_partitions_have_buckets_of_their_own(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(pa.concat_tables([rows(range(5)), rows(range(9), p=1), rows([7], p=2)]))
    assert [bucket_sizes(table, p) for p in range(3)] == [{0: 4, 1: 1}, {0: 4, 1: 4, 2: 1}, {0: 1}]
    check_index(table)


def test_a_commit_without_new_keys_leaves_the_index_manifest(tmp_path: Path) -> None:
    table = make(tmp_path)
    before = table.write(rows(range(6)))
    after = table.write(rows(range(6), 1), kinds=pa.array([DELETE] + [0] * 5, pa.int8()))
    assert after.index_manifest == before.index_manifest
    table.write(rows([0], 2))  # a deleted key stays where it was
    assert bucket_sizes(table) == {0: 4, 1: 2}
    check_index(table)


def test_only_the_buckets_that_got_keys_have_new_index_files(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(6)))
    (before,) = hash_index(table, table.snapshots.latest()).values()
    table.write(rows([6, 7, 8]))
    (after,) = hash_index(table, table.snapshots.latest()).values()
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert sorted(after) == [0, 1, 2]


def test_an_index_file_is_the_hashes_of_the_keys_in_4_bytes_each(tmp_path: Path) -> None:
    """The bytes of a table that Flink wrote: the format notes have these for the BIGINT keys 2, 9 and 1."""
    schema = build_schema(
        pa.schema([pa.field("id", pa.int64(), nullable=False)]), primary_keys=["id"], options={"bucket": "-1"}
    )
    table = FileStoreTable.create(tmp_path / "t", schema, LocalFileIO(sync_data=False))
    table.write(pa.table({"id": pa.array([2, 9, 1], pa.int64())}))
    (file,) = hash_index(table, table.snapshots.latest())[bytes(12)].values()
    data = (tmp_path / "t" / "index" / file.file_name).read_bytes()
    assert sorted(data[at : at + 4].hex() for at in range(0, len(data), 4)) == ["4fe4bbf0", "5476553f", "5759f99e"]
    assert (file.size_bytes, file.key_count) == (12, 3)


def test_initial_buckets_spread_the_first_keys(tmp_path: Path) -> None:
    table = make(tmp_path, {"dynamic-bucket.initial-buckets": "3"}, target=1_000)
    table.write(rows(range(600)))
    sizes = bucket_sizes(table)
    assert sorted(sizes) == [0, 1, 2]
    assert min(sizes.values()) > 150
    for bucket, file in next(iter(hash_index(table, table.snapshots.latest()).values())).items():
        assert {abs(int(np.fmod(one, 3))) for one in read_hashes(table, file)} == {bucket}
    table.write(rows(range(6_000)))
    sizes = bucket_sizes(table)
    assert sum(sizes.values()) == 6_000
    assert max(sizes.values()) <= 1_000
    check_index(table)


def test_full_buckets_take_more_where_there_may_be_no_other(tmp_path: Path) -> None:
    table = make(tmp_path, {"dynamic-bucket.max-buckets": "2"})
    for start in range(0, 40, 10):
        table.write(rows(range(start, start + 10)))
    assert bucket_sizes(table) == {0: 20, 1: 20}
    check_index(table)
    more = make(tmp_path / "more", {"dynamic-bucket.max-buckets": "2", "dynamic-bucket.initial-buckets": "5"})
    more.write(rows(range(40)))
    assert sorted(bucket_sizes(more)) == [0, 1]


@given(
    count=st.integers(0, 60),
    held=st.dictionaries(st.integers(0, 9), st.integers(1, 12)),
    target=st.integers(1, 8),
    class_count=st.integers(1, 4),
    number=st.integers(0, 3),
    buckets_max=st.none() | st.integers(4, 12),
)
def test_new_keys_go_to_buckets_of_their_class_with_room(  # noqa: PLR0917 - drawn one by one
    count: int, held: dict[int, int], target: int, class_count: int, number: int, buckets_max: int | None
) -> None:
    number %= class_count
    rules = AssignRules(target_key_count=target, class_count=class_count, buckets_max=buckets_max)
    found = spread(count, held, number, rules).tolist()
    assert len(found) == count
    assert all(bucket % class_count == number for bucket in found)
    after = {bucket: held.get(bucket, 0) + found.count(bucket) for bucket in {*held, *found}}
    opened = sorted(after.keys() - held.keys())
    is_full = buckets_max is not None and all(
        after.get(bucket, 0) >= target for bucket in range(number, buckets_max, class_count)
    )
    for bucket in set(found):
        assert after[bucket] <= target or is_full
    if opened and not is_full:  # all but the last bucket are full before it is opened
        mine = [bucket for bucket in after if bucket % class_count == number and bucket != opened[-1]]
        assert all(after[bucket] >= target for bucket in mine)
    if buckets_max is not None:
        assert all(bucket < buckets_max for bucket in opened)


def test_more_buckets_than_16_bits_count_are_refused() -> None:
    rules = AssignRules(target_key_count=1)
    assert spread(DYNAMIC_BUCKETS_MAX, {}, 0, rules).tolist() == list(range(DYNAMIC_BUCKETS_MAX))
    with pytest.raises(InvalidRequestError, match=r"more than 32,767 buckets of 1 keys; raise dynamic-bucket\.target"):
        spread(DYNAMIC_BUCKETS_MAX + 1, {}, 0, rules)


def test_the_pieces_of_one_write_know_each_other(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(6)))
    assigner = bucket_assigner(table, table.snapshots.latest())
    assert assigner is not None
    hashes = hashes_of(rows(range(20)), table.schema.key_fields)
    (partition,) = hash_index(table, table.snapshots.latest())
    first = assigner.assign(partition, hashes[:13])
    again = assigner.assign(partition, hashes[::-1])[::-1]
    assert again[:13].tolist() == first.tolist()
    sizes = np.bincount(again).tolist()
    assert sizes == [4, 4, 4, 4, 4]
    change = assigner.write_index()
    assert {bucket: file.key_count for (_, bucket), file in change.files.items()} == {1: 4, 2: 4, 3: 4, 4: 4}


@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 1 << 32), target=st.sampled_from([1, 3, 50]), most=st.sampled_from(["-1", "3"]))
def test_random_histories_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, seed: int, target: int, most: str
) -> None:
    chance = random.Random(seed)
    options = {
        "dynamic-bucket.max-buckets": most,
        "num-sorted-run.compaction-trigger": str(chance.choice((2, 5))),
        "deletion-vectors.enabled": str(chance.random() < 0.3).lower(),
    }
    table = make(tmp_path_factory.mktemp("history"), options, target=target)
    model: dict[tuple[int, int], int] = {}
    for number in range(chance.randint(2, 8)):
        count = chance.randint(0, 30)
        parts, ids = chance.choices(range(3), k=count), chance.choices(range(25), k=count)
        kinds = chance.choices((0, DELETE), weights=(4, 1), k=count)
        columns = [pa.array(parts, pa.int32()), pa.array(ids, pa.int64()), pa.array([number] * count, pa.int64())]
        mode = chance.choices(("append", "overwrite", "overwrite-partitions"), weights=(6, 1, 1))[0]
        table.write(pa.table(columns, schema=SCHEMA), kinds=pa.array(kinds, pa.int8()), mode=mode)  # type: ignore[arg-type]  # a text among three
        if mode != "append":
            gone = {0, 1, 2} if mode == "overwrite" else set(parts)
            model = {key: value for key, value in model.items() if key[0] not in gone}
        for part, key, kind in zip(parts, ids, kinds, strict=True):
            if kind == DELETE:
                model.pop((part, key), None)
            else:
                model[part, key] = number
        if chance.random() < 0.3:
            table.compact(full=chance.random() < 0.5)
        if chance.random() < 0.2:
            drop_partitions(table, "p = 1")
            model = {key: value for key, value in model.items() if key[0] != 1}
        table = FileStoreTable.open(table.path, table.file_io)
        if options["deletion-vectors.enabled"] == "true":  # rows are seen once they are compacted
            table.compact(full=True)
        assert content(table) == [(*key, value) for key, value in sorted(model.items())]
        check_index(table)


# What the commit takes in


def test_an_overwrite_begins_the_index_anew(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(pa.concat_tables([rows(range(9)), rows(range(6), p=1)]))
    table.write(rows([20, 21], 1), mode="overwrite-partitions")
    assert [bucket_sizes(table, p) for p in range(2)] == [{0: 2}, {0: 4, 1: 2}]
    table.write(rows([30], 2, p=3), mode="overwrite", where="p >= 1")
    assert [bucket_sizes(table, p) for p in (0, 1, 3)] == [{0: 2}, {}, {0: 1}]
    table.write(rows([40], 3, p=1))
    assert content(table) == [(0, 20, 1), (0, 21, 1), (1, 40, 3), (3, 30, 2)]
    table.write(rows([]), mode="overwrite")
    assert content(table) == []
    assert hash_index(table, table.snapshots.latest()) == {}
    table.write(rows(range(5)))
    check_index(table)


def test_dropped_partitions_leave_no_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(pa.concat_tables([rows(range(9)), rows(range(6), p=1)]))
    drop_partitions(table, "p = 0")
    assert [bucket_sizes(table, p) for p in range(2)] == [{}, {0: 4, 1: 2}]
    table.write(rows(range(3)))
    assert bucket_sizes(table) == {0: 3}
    check_index(table)


def test_an_index_whose_rows_are_all_deleted_is_replaced_with_them(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(6)))
    table.write(rows(range(6)), kinds=pa.array([DELETE] * 6, pa.int8()))
    table.compact(full=True)
    assert list(table.live_files.of(table.snapshots.latest()).entries()) == []
    assert bucket_sizes(table) == {0: 4, 1: 2}
    table.write(rows([10], p=1), mode="overwrite")
    assert (bucket_sizes(table), bucket_sizes(table, 1)) == ({}, {0: 1})


def test_compactions_and_deletion_vectors_leave_the_index(tmp_path: Path) -> None:
    table = make(tmp_path, {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}, target=50)
    table.write(rows(range(300)))
    table.compact(full=True)
    before = hash_index(table, table.snapshots.latest())
    table.write(rows([3, 70, 299], 1))
    newest = table.snapshots.latest()
    assert deletion_files(table, newest)  # both kinds of records are in one manifest
    assert hash_index(table, newest) == before
    table.write(rows([300], 2))
    table.compact(full=True)
    assert content(table) == [(0, key, {3: 1, 70: 1, 299: 1, 300: 2}.get(key, 0)) for key in range(301)]
    check_index(table)


def test_expiry_and_orphans_leave_the_index_files_that_are_named(tmp_path: Path) -> None:
    table = make(tmp_path)
    for start in range(0, 20, 2):
        table.write(rows(range(start, start + 3), start))
    table.compact(full=True)
    lost = table.paths.index("index-of-a-writer-that-died")
    table.file_io.write_bytes(lost, b"1234")
    found = remove_orphan_files(table, dry_run=False, older_than_millis=-60_000, allow_young=True)
    assert [one.path for one in found.files] == [lost]
    assert files_on_disk(table.path) == referenced_files(table.path)
    expire_snapshots(table, retention=ONE_KEPT)
    assert files_on_disk(table.path) == referenced_files(table.path)
    assert len(list((Path(table.path) / "index").iterdir())) == len(bucket_sizes(table))
    reopened = in_new_process(table.path)
    reopened.write(rows([0, 100], 99))
    check_index(reopened)


# Races


def test_a_write_chooses_again_when_others_gave_keys_buckets(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(3)))
    slow = TableWrite(table, rows([50, 60]), None, replaces=None)  # key 50 would be the last of bucket 0
    table.write(rows([60, 70], 1))  # now 60 is, and 70 in bucket 1
    assert ids_by_bucket(table) == [{0, 1, 2, 60}, {70}]
    latest = table.snapshots.latest()
    request = slow.resolve(latest)
    assert len(slow.superseded) > 0
    assert {entry.bucket for entry in request.entries} == {0, 1}
    hashes = request.hashes
    assert hashes is not None
    assert {bucket for _, bucket in hashes.files} == {1}


def bytes_of(table: FileStoreTable) -> bytes:
    (partition,) = hash_index(table, table.snapshots.latest())
    return partition


def test_a_commit_refuses_rows_whose_buckets_were_chosen_by_an_older_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(3)))
    base = table.snapshots.latest()
    assigner = bucket_assigner(table, base)
    assert assigner is not None
    written = write_rows(table, rows([50, 60]), first_sequence=lambda _: 10**6, assigner=assigner)
    hashes = assigner.write_index()
    table.write(rows([60], 1))

    def commit(user: str, change: HashIndexChange | None) -> None:
        append_commit(table, user=user, identifier=0, digest=None, entries=written.entries, hashes=change)

    with pytest.raises(OvertakenError, match=r"table t appeared .* another writer assigned buckets"):
        commit("late", hashes)
    with pytest.raises(InvalidRequestError, match="table t has dynamic buckets: rows are committed with the HASH"):
        commit("without", None)
    check_index(table)


def test_a_commit_refuses_known_keys_of_a_partition_that_was_dropped(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(9)))
    slow = TableWrite(table, rows([8], 1), None, replaces=None)
    drop_partitions(table, "p = 0")
    request = slow.resolve(table.snapshots.latest())
    assert [entry.bucket for entry in request.entries] == [0]  # it was in bucket 2
    assert request.hashes is not None
    assert {bucket for _, bucket in request.hashes.files} == {0}


def test_others_in_another_partition_and_compactions_are_no_conflict(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(pa.concat_tables([rows(range(9)), rows(range(6), p=1)]))
    slow = TableWrite(table, rows([100], 1), None, replaces=None)
    table.write(rows([200], 1, p=1))
    table.compact(full=True)
    slow.resolve(table.snapshots.latest())
    assert slow.superseded == []


def race(path: str, number: str, commits: str) -> None:
    """What each process does: write keys that the others write too; the first one replaces all in between.

    Prints what each of its snapshots wrote: ids, value, and whether that replaced the table.
    """
    table = FileStoreTable.open(path, LocalFileIO(sync_data=False))
    chance = random.Random(number)
    done: dict[int, tuple[list[int], int, bool]] = {}
    while len(done) < int(commits):
        is_overwrite = number == "0"
        value = int(number) * 10_000 + len(done)
        ids = chance.sample(range(60), chance.choice((1, 2, 20)))
        try:
            snapshot = table.write(rows(ids, value), mode="overwrite" if is_overwrite else "append")
        except ConflictError:
            assert is_overwrite  # others came first; only appends are prepared again
            continue
        done[snapshot.id] = (ids, value, is_overwrite)
    print(json.dumps(done))


@pytest.mark.parametrize(("processes", "commits"), [(3, 15), pytest.param(6, in_full(60), marks=pytest.mark.full)])
@pytest.mark.timeout(1200)
def test_racing_processes_never_give_a_key_two_buckets(tmp_path: Path, processes: int, commits: int) -> None:
    options = {"commit.max-retries": "1000", "commit.max-retry-wait": "20 ms", "write-only": "true"}
    table = make(tmp_path, options)
    script = f"from {__name__} import race; import sys; race(*sys.argv[1:])"
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", script, table.path, str(number), str(commits)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    done: dict[int, tuple[list[int], int, bool]] = {}
    for process in racing:
        output, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        done |= {int(snapshot): write for snapshot, write in json.loads(output).items()}
    assert len(done) == processes * commits
    found = in_new_process(table.path)
    model: dict[int, int] = {}
    for snapshot in sorted(done):
        ids, value, is_overwrite = done[snapshot]
        model = ({} if is_overwrite else model) | dict.fromkeys(ids, value)
        assert content(found, snapshot) == [(0, key, value) for key, value in sorted(model.items())]
    check_index(found)


# What is refused


def test_damaged_and_lost_index_files_are_errors(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(3)))
    (file,) = hash_index(table, table.snapshots.latest())[bytes_of(table)].values()
    path = Path(table.paths.index(file.file_name))
    data = path.read_bytes()
    for damage in (data[:-1], data + b"\0" * 4, bytes(12)):
        path.write_bytes(damage)
        with pytest.raises(CorruptDataError, match="is damaged"):
            make_new_reader(table).write(rows([1]))
    path.unlink()
    with pytest.raises(NotFoundError, match="is missing"):
        make_new_reader(table).write(rows([1]))
    path.write_bytes(data)
    make_new_reader(table).write(rows([1]))


def make_new_reader(table: FileStoreTable) -> FileStoreTable:
    """The table for a process that has read no index file yet."""
    from lakelog.filestore.index.hash_index import _READ  # noqa: PLC0415

    _READ.clear()
    return in_new_process(table.path)


def test_rows_are_not_added_to_a_bucket_without_an_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.write(rows(range(3)))
    newest = table.snapshots.latest()
    assert newest is not None
    path = Path(table.paths.snapshot(newest.id))
    text = json.loads(path.read_text())
    del text["indexManifest"], text["properties"], text["writerVersion"]  # as somebody else wrote it
    path.write_text(json.dumps(text))
    stranger = make_new_reader(table)
    with pytest.raises(CorruptDataError, match="bucket-0 of table t has data files, but no HASH index file"):
        stranger.write(rows([1]))
    stranger.write(stranger.to_arrow(), mode="overwrite")  # the way out
    stranger.write(rows([1, 9], 7))
    assert content(stranger) == [(0, 0, 0), (0, 1, 7), (0, 2, 0), (0, 9, 7)]
    check_index(stranger)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"bucket-key": "id"}, InvalidRequestError, "bucket=-1 takes no bucket-key"),
        ({"dynamic-bucket.target-row-num": "0"}, InvalidRequestError, "dynamic-bucket.target-row-num"),
        ({"dynamic-bucket.max-buckets": "-2"}, InvalidRequestError, "dynamic-bucket.max-buckets"),
    ],
)
def test_what_dynamic_buckets_do_not_go_with(
    tmp_path: Path, options: dict[str, str], error: type[LakelogError], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(tmp_path, options)


def test_index_files_beside_the_data_are_not_written(tmp_path: Path) -> None:
    table = make(tmp_path)
    schema = Path(table.paths.schema(0))
    schema.write_text(altered_by_others(table.schema, **{"index-file-in-data-file-dir": "true"}))
    with pytest.raises(UnsupportedError, match="with index-file-in-data-file-dir=true are not written yet"):
        FileStoreTable.open(table.path).write(rows([1]))


def test_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(InvalidRequestError, match="table t has bucket=-1; only a table with a fixed number of buckets"):
        rescale(table, 4)
