"""Manifests: read from Flink, written alike, merged by the format's rule."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any  # Any: Avro records and schemas are untyped

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.types import parse_type
from lakelog.filestore.encoding.binary_row import deserialize_row, serialize_row
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.data_file import FileSource
from lakelog.filestore.metadata.manifests.manifest import (
    COLUMNS_CACHE,
    ENTRY_CACHE,
    LIST_CACHE,
    FileKind,
    ManifestEntry,
    ManifestFiles,
    live_entries,
    merge_entries,
)
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId, entries_of_buckets
from lakelog.filestore.metadata.manifests.manifest_records import partition_stats
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.schema.paths import FileNames, TablePaths
from tests.support.files.data_files import key_of, manifest_entries, plain_entry
from tests.support.tables.paimon_tables import expected, unpack

BIGINT = parse_type("BIGINT")


def files_in(folder: Path) -> ManifestFiles:
    return ManifestFiles(LocalFileIO(), TablePaths(str(folder)))


def _key_text(key: bytes) -> str:
    return str(list(deserialize_row([BIGINT], key)))


def forget() -> None:
    COLUMNS_CACHE.clear()
    ENTRY_CACHE.clear()
    LIST_CACHE.clear()


def test_the_manifests_that_flink_wrote_are_read(tmp_path: Path) -> None:
    folder = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    manifests = files_in(folder)
    newest = SnapshotManager(LocalFileIO(), TablePaths(str(folder))).latest()
    assert newest is not None
    base, delta = manifests.read_list(newest.base_manifest_list), manifests.read_list(newest.delta_manifest_list)
    entries = live_entries(manifests.read_entries([*base, *delta]))

    assert sum(entry.file.row_count for entry in entries) == newest.total_record_count
    assert sum(entry.file.row_count for entry in manifests.read_entries(delta)) == newest.delta_record_count
    found = [
        {
            "bucket": entry.bucket,
            "level": entry.file.level,
            "record_count": entry.file.row_count,
            "min_key": _key_text(entry.file.min_key),
            "max_key": _key_text(entry.file.max_key),
            "min_sequence_number": entry.file.min_sequence_number,
            "max_sequence_number": entry.file.max_sequence_number,
        }
        for entry in entries
    ]
    wanted = [{key: row[key] for key in found[0]} for row in expected("pk_basic", "pk_basic", "files")]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    for entry in entries:
        path = folder / f"bucket-{entry.bucket}" / entry.file.file_name
        assert path.stat().st_size == entry.file.file_size_bytes
        assert entry.file.file_source is FileSource.APPEND
    for manifest in (*base, *delta):
        assert (folder / "manifest" / manifest.file_name).stat().st_size == manifest.file_size_bytes


def without_checksums(given: Any) -> Any:
    """A record or a schema as Paimon has it: without the field that is lakelog's own."""
    if isinstance(given, list):
        return [without_checksums(part) for part in given if not is_own_field(part)]
    if isinstance(given, dict):
        return {key: without_checksums(value) for key, value in given.items() if key != "_LAKELOG_CHECKSUMS"}
    return given


def is_own_field(part: Any) -> bool:
    return isinstance(part, dict) and part.get("name") == "_LAKELOG_CHECKSUMS"


def test_what_flink_wrote_is_written_back_as_the_same_records_and_schema(tmp_path: Path) -> None:
    folder = unpack("pk_basic", tmp_path) / "db.db" / "pk_basic"
    manifests = files_in(folder)
    for path in sorted((folder / "manifest").iterdir()):
        theirs = fastavro.reader(io.BytesIO(path.read_bytes()))
        if path.name.startswith("manifest-list-"):
            name, size = manifests.write_list(manifests.read_list(path.name), names=FileNames())
        else:
            (meta,) = manifests.write(manifests.read(path.name), names=FileNames(), schema_id=0)
            name, size = meta.file_name, meta.file_size_bytes
        data = (folder / "manifest" / name).read_bytes()
        ours = fastavro.reader(io.BytesIO(data))
        assert len(data) == size
        assert without_checksums(ours.writer_schema) == theirs.writer_schema
        assert ours.codec == theirs.codec == "zstandard"
        assert [without_checksums(record) for record in ours] == list(theirs)


@settings(deadline=None)
@given(entries=st.lists(manifest_entries, min_size=1, max_size=5))
def test_every_entry_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, entries: list[ManifestEntry]
) -> None:
    manifests = files_in(tmp_path_factory.getbasetemp() / "entries")
    (meta,) = manifests.write(entries, names=FileNames(), schema_id=5)
    forget()
    assert list(manifests.read(meta.file_name)) == entries
    assert (meta.num_added_files + meta.num_deleted_files, meta.schema_id) == (len(entries), 5)
    assert (meta.min_bucket, meta.max_bucket) == (min(e.bucket for e in entries), max(e.bucket for e in entries))
    assert (meta.min_level, meta.max_level) == (min(e.file.level for e in entries), max(e.file.level for e in entries))
    name, _ = manifests.write_list([meta, meta], names=FileNames())
    forget()
    assert manifests.read_list(name) == (meta, meta)


def test_a_list_may_be_empty_and_many_entries_roll(tmp_path: Path) -> None:
    manifests = files_in(tmp_path)
    name, size = manifests.write_list([], names=FileNames())
    forget()
    assert manifests.read_list(name) == ()
    assert (tmp_path / "manifest" / name).stat().st_size == size
    assert manifests.write([], names=FileNames(), schema_id=0) == []
    entries = [plain_entry(f"data-{index}") for index in range(5)]
    metas = manifests.write(entries, names=FileNames(), schema_id=0, entries_max=2)
    assert [meta.num_added_files for meta in metas] == [2, 2, 1]
    assert list(manifests.read_entries(metas)) == entries


def test_a_manifest_is_read_from_disk_once(tmp_path: Path) -> None:
    manifests = files_in(tmp_path)
    (meta,) = manifests.write([plain_entry("data-0")], names=FileNames(), schema_id=0)
    name, _ = manifests.write_list([meta], names=FileNames())
    forget()
    first = manifests.read(meta.file_name), manifests.read_list(name)
    for path in (tmp_path / "manifest").iterdir():
        path.unlink()
    assert (manifests.read(meta.file_name), manifests.read_list(name)) == first
    forget()
    with pytest.raises(NotFoundError):
        manifests.read(meta.file_name)


def test_the_cache_drops_what_was_not_used_for_longest() -> None:
    cache: BoundedCache[str, tuple[int, ...]] = BoundedCache(bytes_max=1_600)
    cache.put("a", (1, 2), 500)
    cache.put("b", (3,), 500)
    assert cache.get("a") == (1, 2)
    cache.put("c", (4, 5), 500)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ((1, 2), None, (4, 5))
    assert cache.size_bytes <= 1_600
    cache.put("huge", tuple(range(100)), 5_000)
    assert cache.get("huge") is None
    assert cache.size_bytes == 0


@pytest.mark.parametrize("codec", ["zstd", "none", "deflate"])
def test_a_flipped_bit_never_goes_unseen(tmp_path: Path, codec: str) -> None:
    manifests = ManifestFiles(LocalFileIO(), TablePaths(str(tmp_path)), compression=codec)
    entries = (plain_entry("data-0"), plain_entry("data-1", bucket=1))
    (meta,) = manifests.write(entries, names=FileNames(), schema_id=0)
    path = tmp_path / "manifest" / meta.file_name
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        for bit in (0, 5):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            path.write_bytes(bad)
            forget()
            with contextlib.suppress(CorruptDataError):
                assert manifests.read(meta.file_name) == entries, f"byte {at}"  # only the digest's own key may differ


def test_a_short_or_foreign_file_is_corrupt(tmp_path: Path) -> None:
    manifests = files_in(tmp_path)
    (meta,) = manifests.write([plain_entry("data-0")], names=FileNames(), schema_id=0)
    path = tmp_path / "manifest" / meta.file_name
    good = path.read_bytes()
    for bad in (b"", b"Obj\x01", good[:-1], good[: len(good) // 2], b"PAR1" + good):
        path.write_bytes(bad)
        forget()
        with pytest.raises(CorruptDataError, match=meta.file_name):
            manifests.read(meta.file_name)
    name, _ = manifests.write_list([meta], names=FileNames())
    forget()
    with pytest.raises(CorruptDataError, match="holds a record that is not readable"):
        manifests.read(name)


def test_a_delete_cancels_its_add_and_a_lone_delete_stays() -> None:
    add, other = plain_entry("a"), plain_entry("b")
    delete = plain_entry("a", FileKind.DELETE)
    assert merge_entries([add, other, delete]) == [other]
    assert merge_entries([delete, other]) == [delete, other]
    assert merge_entries([add, delete, add]) == [add]
    assert live_entries([add, other, delete]) == [other]
    with pytest.raises(CorruptDataError, match="deleted but was never added"):
        live_entries([delete])
    with pytest.raises(CorruptDataError, match="file a is added to bucket 0 twice"):
        merge_entries([add, add])


def test_an_upgraded_file_is_another_one() -> None:
    add, upgraded = plain_entry("a"), plain_entry("a", level=5)
    delete = plain_entry("a", FileKind.DELETE)
    assert live_entries([add, delete, upgraded]) == live_entries([add, upgraded, delete]) == [upgraded]


def test_one_name_in_two_partitions_is_two_files() -> None:
    entries = [plain_entry("a", partition=key_of(1)), plain_entry("a", partition=key_of(2)), plain_entry("a", bucket=1)]
    assert merge_entries(entries) == entries


def test_partition_stats_bound_every_column() -> None:
    kinds = [parse_type("STRING"), parse_type("INT"), parse_type("DOUBLE")]
    partitions = [serialize_row(kinds, row) for row in (("b", None, 0.0), ("a", None, -0.0), (None, None, 1.5))]
    stats = partition_stats(kinds, partitions)
    assert deserialize_row(kinds, stats.min_values) == ("a", None, -0.0)
    assert deserialize_row(kinds, stats.max_values) == ("b", None, 1.5)
    assert stats.null_counts == (1, 3, 0)


def test_an_unknown_or_missing_codec_is_named(tmp_path: Path) -> None:
    manifests = ManifestFiles(LocalFileIO(), TablePaths(str(tmp_path)), compression="rar")
    with pytest.raises(InvalidRequestError, match="compression 'rar' is not known for Avro files; known are deflate"):
        manifests.write_list([], names=FileNames())


def test_a_filter_is_asked_once_for_each_bucket() -> None:
    entries = [plain_entry(str(name), bucket=name % 3) for name in range(9)]
    asked: list[BucketId] = []

    def keeps(bucket: BucketId) -> bool:
        asked.append(bucket)
        return bucket.number > 0

    kept = list(entries_of_buckets(entries, keeps))
    assert [entry.bucket for entry in kept] == [1, 2] * 3
    assert asked == [entry.bucket_id for entry in entries[:3]]
