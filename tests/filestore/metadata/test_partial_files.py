"""The live files of a large snapshot that are read partition by partition, and the manifests that hold few of these."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests import manifest, manifest_merging
from lakelog.filestore.metadata.manifests.manifest import ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_pruning import manifests_of_partitions
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.snapshots import live_files
from lakelog.filestore.metadata.snapshots.partial_files import PartialFiles
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import in_new_process

SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64())]
)
PARTITIONS = range(-2, 4)
STEPS = st.lists(
    st.one_of(st.sets(st.sampled_from(PARTITIONS), min_size=1, max_size=3), st.just("compact")), min_size=1, max_size=5
)


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot counts as large, and manifests are joined soon."""
    monkeypatch.setattr(live_files, "_WHOLE_MAX", 0)


def make_table(folder: Path, *, joins_from: int = 3) -> FileStoreTable:
    """An empty table with partitions, of two buckets each, whose commits join so many manifests."""
    options = {"bucket": "2", "manifest.merge-min-count": str(joins_from)}
    schema = build_schema(
        SCHEMA,
        primary_keys=["p", "id"],
        partition_keys=["p"],
        options=options,
    )
    return FileStoreTable.create(f"{folder}/t", schema, LocalFileIO(sync_data=False))


def rows_of(partitions: Collection[int], batch: int) -> pa.Table:
    """Rows of a batch in some partitions."""
    rows = [(partition, number, batch) for partition in sorted(partitions) for number in range(3)]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def partition_of(table: FileStoreTable, value: int) -> bytes:
    return serialize_row([field.type for field in table.schema.partition_fields], [value])


def newest(table: FileStoreTable) -> Snapshot:
    found = table.snapshots.latest()
    assert found is not None
    return found


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=STEPS, asked=st.lists(st.sampled_from(PARTITIONS), max_size=4))
def test_files_of_partitions_are_those_of_the_whole_state_at_every_snapshot(
    tmp_path_factory: pytest.TempPathFactory, steps: list[set[int] | str], asked: list[int]
) -> None:
    table = make_table(tmp_path_factory.mktemp("lake"))
    reader = FileStoreTable.open(table.path)  # steps from snapshot to snapshot, with what it has read before
    for batch, step in enumerate(steps):
        if isinstance(step, str):
            table.compact(full=True)
        else:
            table.write(rows_of(step, batch))
        snapshot = table.snapshots.latest()
        whole = FileStoreTable.open(table.path).live_files.of(snapshot)
        for handle in (table, reader):
            part = handle.live_files.near(snapshot)
            for value in asked:
                for number in range(2):
                    bucket = BucketId(partition_of(table, value), number)
                    assert set(part.files(bucket)) == set(whole.files(bucket))
                    assert part.next_sequence(bucket) == whole.next_sequence(bucket)
                assert part.total_buckets([bucket.partition]) == whole.total_buckets([bucket.partition])
            assert set(part.whole().entries()) == set(whole.entries())


def test_a_commit_to_one_partition_reads_no_manifest_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path, joins_from=30)
    for value in range(3):
        table.write(rows_of([value], value))
    table = in_new_process(table.path)
    assert isinstance(table.live_files.near(newest(table)), PartialFiles)
    read: list[str] = []
    decode = ManifestFiles._columns

    def recording(self: ManifestFiles, path: str, size_bytes: int | None) -> object:
        read.append(path)
        return decode(self, path, size_bytes)

    monkeypatch.setattr(ManifestFiles, "_columns", recording)
    own = partition_of(table, 1)
    held = manifests_of_partitions(table.live_files.manifests_of(newest(table)), [own], table.manifests.partition_types)
    table.write(rows_of([1], 9))
    assert read
    assert {path.rpartition("/")[2] for path in read} <= {one.file_name for one in held}


def test_many_single_reads_end_in_one_of_everything(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for value in range(40):
        table.write(rows_of([value], value))
    part = in_new_process(table.path).live_files.near(newest(table))
    assert isinstance(part, PartialFiles)
    for value in range(40):
        assert part.files(BucketId(partition_of(table, value), 0)) or part.files(
            BucketId(partition_of(table, value), 1)
        )
    assert part._is_whole


def test_manifests_that_are_written_together_hold_few_partitions_each(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for value in (3, 0, 2, 1):
        table.write(rows_of([value], value))
    entries = list(table.live_files.of(newest(table)).entries())
    metas = table.manifests.write(entries, names=FileNames(), schema_id=0, entries_max=2)
    found = [{entry.partition for entry in table.manifests.read(meta.file_name)} for meta in metas]
    assert [len(partitions) for partitions in found] == [1, 1, 1, 1]
    order = [partition_of(table, value) for value in range(4)]
    assert [next(iter(partitions)) for partitions in found] == order


def test_full_manifests_without_the_deleted_partitions_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (manifest, manifest_merging):
        monkeypatch.setattr(module, "ENTRIES_MAX", 3)
    monkeypatch.setattr("lakelog.filestore.commit.written_manifests.ENTRIES_MAX", 3)
    table = make_table(tmp_path)
    table.write(rows_of(range(4), 0))
    before = _manifests(table)
    for batch in range(1, 13):
        table.write(rows_of([3], batch))
        table.compact(full=True, where="p = 3")
    after = _manifests(table)
    untouched = {one.file_name for one in before if partition_of(table, 3) not in _partitions(table, one)}
    assert untouched
    assert untouched <= {one.file_name for one in after}
    assert not {one.file_name for one in before} - untouched & {one.file_name for one in after}
    assert sorted(row["a"] for row in table.to_arrow().to_pylist() if row["p"] == 3) == [12, 12, 12]


def _manifests(table: FileStoreTable) -> list[ManifestFileMeta]:
    return list(table.live_files.manifests_of(newest(table)))


def _partitions(table: FileStoreTable, meta: ManifestFileMeta) -> set[bytes]:
    return {entry.partition for entry in table.manifests.read(meta.file_name)}
