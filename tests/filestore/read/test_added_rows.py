"""Look-ups by key in files behind a snapshot, whose rows stay in memory, beside the read that merges all files."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.types import RowKind
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.read.pinning import pinned
from lakelog.filestore.schema import build_schema
from lakelog.filestore.verbs.added_rows import AddedRows, RowsInMemory
from lakelog.filestore.verbs.read_verbs import look_up
from lakelog.filestore.write.write import write_rows
from tests.support.examples import rest_in_full
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema(
    [pa.field("day", pa.date32(), False), pa.field("name", pa.string(), False), pa.field("n", pa.int64(), False),
     ("value", pa.int64()), ("note", pa.string())]
)  # fmt: skip
DAYS = [datetime.date(2026, 1, day) for day in (1, 2)]
KEYS = [{"day": day, "name": name, "n": n} for day in DAYS for name in ("", "a", "ä") for n in range(3)]
ROOM = 1 << 20
Added = tuple[FileStoreTable, list[ManifestEntry]]


def make(folder: Path, options: Mapping[str, str] | None = None) -> FileStoreTable:
    schema = build_schema(
        SCHEMA, primary_keys=["day", "name", "n"], partition_keys=["day"], options={"bucket": "2", **(options or {})}
    )
    return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)


def filled(table: FileStoreTable, rng: random.Random) -> Added:
    """A table with a snapshot, and files behind it with newer rows and deletes."""
    made = 0
    entries: list[ManifestEntry] = []
    for batch in range(8):
        keys = rng.sample(KEYS, rng.randint(1, 6))
        rows = pa.Table.from_pylist([{**key, "value": made + at, "note": None} for at, key in enumerate(keys)], SCHEMA)
        if batch < 2:
            table.write(rows)
        else:
            kinds = [rng.choice((RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE)).value for _ in keys]
            entries += write_rows(
                table, rows, pa.array(kinds, pa.int8()), first_sequence=number_from(100 + made)
            ).entries
        made += len(keys)
    return table, entries


def number_from(first: int) -> Callable[[BucketId], int]:
    return lambda _bucket: first


def sorted_rows(rows: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.parametrize("seed", rest_in_full(range(6), 3))
@pytest.mark.parametrize("bytes_max", [0, 600, ROOM])
def test_a_look_up_in_added_files_finds_what_a_read_of_all_files_finds(
    tmp_path: Path, seed: int, bytes_max: int
) -> None:
    rng = random.Random(seed)
    table, entries = filled(make(tmp_path), rng)
    latest, kept = table.snapshots.latest(), RowsInMemory(bytes_max)
    shown, base = pinned(table, latest, entries), pinned(table, latest)
    for _ in range(2):  # the second time from memory
        added = AddedRows.of(base, entries, kept)
        assert added is not None
        for wanted in (KEYS, rng.sample(KEYS, 2), [*KEYS[:1], {**KEYS[0], "name": "lacks"}], []):
            found = look_up(shown, wanted, added=added)
            assert found.schema.equals(look_up(shown, wanted).schema)
            assert sorted_rows(found) == sorted_rows(look_up(shown, wanted))
        assert look_up(shown, KEYS, columns="value", added=added).column_names == ["value"]
    assert kept.size_bytes <= bytes_max
    assert bool(kept.size_bytes) == (bytes_max > 0)


def test_rows_of_added_files_are_read_once_and_only_as_long_as_they_are_added(tmp_path: Path) -> None:
    table, entries = filled(make(tmp_path), random.Random(1))
    base, kept = pinned(table, table.snapshots.latest()), RowsInMemory(ROOM)
    found = sorted_rows(look_up(base, KEYS, added=AddedRows.of(base, entries, kept)))
    for entry in entries:
        Path(table.data_path(entry.bucket_id, entry.file)).unlink()

    assert sorted_rows(look_up(base, KEYS, added=AddedRows.of(base, entries, kept))) == found

    fewer = AddedRows.of(base, entries[:2], kept)
    assert fewer is not None
    assert kept.size_bytes == sum(
        rows.get_total_buffer_size() for entry in entries[:2] if (rows := kept.get(entry.file.file_name)) is not None
    )
    AddedRows.of(base, [], kept)
    assert kept.size_bytes == 0


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "first-row"},
        {"merge-engine": "partial-update"},
        {"sequence.field": "value"},
        {"ignore-delete": "true"},
        {"deletion-vectors.enabled": "true"},
        {"scan.fallback-branch": "other"},
    ],
)
def test_tables_that_merge_otherwise_are_read_as_a_whole(tmp_path: Path, options: dict[str, str]) -> None:
    assert AddedRows.of(make(tmp_path, options), [], RowsInMemory(ROOM)) is None


def test_keys_with_numbers_that_are_equal_and_two_keys_are_read_as_a_whole(tmp_path: Path) -> None:
    schema = build_schema(
        pa.schema([pa.field("x", pa.float64(), False), ("v", pa.int64())]), primary_keys=["x"], options={"bucket": "1"}
    )
    table = FileStoreTable.create(f"{tmp_path}/t", schema, UNSYNCED)
    assert AddedRows.of(table, [], RowsInMemory(ROOM)) is None
