"""Rows in batches: whatever the size of the write buffer, the same table, in one sorted run a bucket."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.manifests.levels import runs_of, sections_of
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.spilling import SPILL_PREFIX
from lakelog.filestore.write.write_buffer import write_batches
from tests.support.examples import pairs_in_full
from tests.support.tables.small_tables import UNSYNCED

ROOT = Path(__file__).parents[3]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)
ENGINES = {
    "deduplicate": {},
    "sequence.field": {"sequence.field": "a"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "first-row": {"merge-engine": "first-row"},
}
TINY = {"write-buffer-size": "2 kb", "target-file-size": "4 kb", "file.block-size": "1 kb"}
ROWS, KEYS, BATCH_ROWS = 3_000, 900, 50


def make(folder: Path, options: dict[str, str], *, keys: tuple[str, ...] = ("id", "day")) -> FileStoreTable:
    given = {"bucket": "2" if keys else "-1", "write-only": "true", **options}
    schema = build_schema(SCHEMA, primary_keys=keys, partition_keys=["day"], options=given)
    return FileStoreTable.create(folder, schema, UNSYNCED)


def batches(*, kinds: bool, rows: int = ROWS) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    ids = rng.integers(0, KEYS, rows)
    a = pa.array(rng.integers(0, 1_000, rows), mask=rng.random(rows) < 0.3)
    b = pa.array([f"text {number}" for number in range(rows)], mask=rng.random(rows) < 0.3)
    given = pa.table([ids, pa.array(ids % 3, pa.int32()), a, b], schema=SCHEMA)
    if kinds:
        given = given.append_column(ROW_KIND_COLUMN, pa.array(rng.choice([0, 2, 3], rows), pa.int8()))
    found: list[pa.RecordBatch] = given.to_batches(max_chunksize=BATCH_ROWS)
    return found


def commit(table: FileStoreTable, given: list[pa.RecordBatch]) -> list[ManifestEntry]:
    written, _ = write_batches(table, given, first_sequence=0)
    request = CommitRequest(
        commit_user="u", commit_identifier=BATCH_COMMIT_IDENTIFIER, kind=CommitKind.APPEND, entries=written.entries
    )
    TableCommit(table).commit(lambda _: request)
    return written.entries


def content(table: FileStoreTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=repr)


def runs_of_buckets(table: FileStoreTable, entries: list[ManifestEntry]) -> list[int]:
    """For each bucket the most files that one key range is in."""
    buckets = {(entry.partition, entry.bucket) for entry in entries}
    found = []
    for one in buckets:
        files = [entry.file for entry in entries if (entry.partition, entry.bucket) == one]
        sections = sections_of(runs_of(files, table.key_types), table.key_types)
        found.append(max(len(section.runs) for section in sections))
    return found


@pytest.mark.parametrize(("engine", "handles"), pairs_in_full(ENGINES, ["2", "128", "5"]))
def test_a_small_buffer_writes_the_same_rows_in_one_run(tmp_path: Path, engine: str, handles: str) -> None:
    given = batches(kinds=engine == "deduplicate")
    large = make(tmp_path / "large", ENGINES[engine])
    commit(large, given)
    small = make(tmp_path / "small", {**ENGINES[engine], **TINY, "local-sort.max-num-file-handles": handles})
    entries = commit(small, given)
    assert set(runs_of_buckets(small, entries)) == {1}
    assert len(entries) > 6  # more files than buckets: of the target size
    if engine != "first-row":  # whose rows are seen once they are compacted
        assert content(small) == content(large) != []
    small.compact(full=True)
    large.compact(full=True)
    assert content(small) == content(large) != []


@pytest.mark.parametrize("options", [{"write-buffer-spillable": "false"}, {"write-buffer-spill.max-disk-size": "1 b"}])
def test_buffers_that_may_not_spill_become_files_of_their_own(tmp_path: Path, options: dict[str, str]) -> None:
    given = batches(kinds=True)
    large = make(tmp_path / "large", {})
    commit(large, given)
    small = make(tmp_path / "small", {**TINY, **options})
    entries = commit(small, given)
    assert content(small) == content(large)
    assert max(runs_of_buckets(small, entries)) > 1


def test_rows_without_a_key_are_written_buffer_by_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    table = make(tmp_path / "t", TINY, keys=())
    given = batches(kinds=False)
    commit(table, given)
    assert content(table) == sorted((tuple(row.values()) for row in pa.Table.from_batches(given).to_pylist()), key=repr)


def test_spills_leave_nothing_behind_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "spills"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    names: list[str] = []
    make_file = tempfile.mkstemp

    def watched(*, prefix: str, suffix: str) -> tuple[int, str]:
        handle, path = make_file(prefix=prefix, suffix=suffix)
        names.append(Path(path).name)
        return handle, path

    monkeypatch.setattr(tempfile, "mkstemp", watched)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    commit(make(tmp_path / "t", TINY), batches(kinds=False))
    assert len(names) > 10
    assert all(name.startswith(SPILL_PREFIX) for name in names)
    assert list(folder.iterdir()) == []

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(kinds=False)
        raise InvalidRequestError("the source broke")

    table = make(tmp_path / "t2", TINY)
    with pytest.raises(InvalidRequestError, match="the source broke"):
        write_batches(table, failing(), first_sequence=0)
    assert list(folder.iterdir()) == []
    assert not list((tmp_path / "t2").rglob("*.parquet"))
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before


def test_a_folder_that_takes_no_spills_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(UnavailableError, match=r"could not be spilled to .*nowhere.*TMPDIR"):
        commit(make(tmp_path / "t", TINY), batches(kinds=False))


BUFFER_BYTES = 8 << 20
WIDE_BATCHES, WIDE_ROWS, WIDE_BYTES = 80, 2_000, 1_024
WIDE = pa.schema([pa.field("id", pa.int64(), nullable=False), ("payload", pa.binary(WIDE_BYTES))])


def wide_batches() -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    for _ in range(WIDE_BATCHES):
        data = pa.py_buffer(rng.bytes(WIDE_ROWS * WIDE_BYTES))
        payload = pa.FixedSizeBinaryArray.from_buffers(WIDE.field("payload").type, WIDE_ROWS, [None, data])
        yield pa.RecordBatch.from_arrays([pa.array(rng.integers(0, 1 << 40, WIDE_ROWS)), payload], schema=WIDE)


def write_wide(path: str) -> None:
    """Print how many rows were written, and the most bytes that Arrow held at a time."""
    _, count = write_batches(FileStoreTable.open(path), wide_batches(), first_sequence=0)
    print(count, pa.default_memory_pool().max_memory())


@pytest.mark.full
def test_memory_is_that_of_the_buffer_and_not_of_the_rows(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-buffer-size": "8 mb", "file.block-size": "4 mb", "write-only": "true"}
    FileStoreTable.create(tmp_path / "t", build_schema(WIDE, primary_keys=["id"], options=options), UNSYNCED)
    script = f"from {__name__} import write_wide; import sys; write_wide(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    count, peak_bytes = map(int, done.stdout.split())
    assert count == WIDE_BATCHES * WIDE_ROWS
    assert peak_bytes < 5 * BUFFER_BYTES < WIDE_BATCHES * WIDE_ROWS * WIDE_BYTES // 3
