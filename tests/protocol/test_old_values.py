"""Logs of all changes: what rows change by the rows before them, and what it costs to look these up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.schema.schema import VALUE_KIND
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.write.write import starting_at, write_rows
from lakelog.logstore.options import LOGSTORE_OPTIONS
from lakelog.protocol.state.loggable import check_loggable
from lakelog.protocol.state.ports import PartBase
from lakelog.protocol.stores.logged_rows import BucketRows, ResolvedRows, staying_rows, write_changelog
from lakelog.protocol.stores.old_values import changed_rows
from lakelog.protocol.stores.resolving import CACHE, resolve
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.small_tables import UNSYNCED, altered_by_others, append_anyhow

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int64()), pa.field("b", pa.int64())])
WIDE = SCHEMA.append(pa.field("w", pa.string()))
WIDTH = 160
LOGGED = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all"}
BUCKET = BucketId(bytes(12), 0)
DEDUPLICATED = {"changelog-producer.row-deduplicate": "true"}
SUMMED = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
    "log.changelog-mode": "upsert",
}
NEIGHBOURS = 100
MANY = 50_000
Row = tuple[int, int | None, int | None]
Change = tuple[str, Row]


def make(
    folder: Path,
    options: Mapping[str, str] | None = None,
    file_io: FileIO = UNSYNCED,
    columns: pa.Schema = SCHEMA,
) -> FileStoreTable:
    schema = build_schema(columns, primary_keys=["id"], options={**LOGGED, **(options or {})}, also=LOGSTORE_OPTIONS)
    return FileStoreTable.create(folder / "t", schema, file_io)


def rows_of(rows: Iterable[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 3
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)


def part_of(changes: Sequence[Change]) -> BucketRows:
    kinds = pa.array([ROW_KIND_TEXTS.index(kind) for kind, _ in changes], pa.int8())
    return BucketRows(bucket_id=BUCKET, rows=rows_of(row for _, row in changes), kinds=kinds)


def change(table: FileStoreTable, changes: Sequence[Change], old: Sequence[Change] = ()) -> ResolvedRows:
    part, before = part_of(changes), part_of(old)
    newest = staying_rows(table, part.rows, part.kinds)
    return changed_rows(table.schema, newest, before.rows.append_column(VALUE_KIND, before.kinds) if old else None)


def with_kinds(rows: pa.Table, kinds: pa.Array) -> list[Change]:
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return [(ROW_KIND_TEXTS[kind], row) for kind, row in zip(kinds.to_pylist(), values, strict=True)]


@pytest.mark.parametrize(
    ("old", "changes", "expected"),
    [
        ([], [("+I", (2, 1, 1)), ("+I", (1, 1, 1))], [("+I", (1, 1, 1)), ("+I", (2, 1, 1))]),
        ([("+I", (1, 1, 1))], [("+I", (1, 2, 2))], [("-U", (1, 1, 1)), ("+U", (1, 2, 2))]),
        ([("+I", (1, 1, 1))], [("-U", (1, 9, 9)), ("+U", (1, 2, 2))], [("-U", (1, 1, 1)), ("+U", (1, 2, 2))]),
        ([("+I", (1, 1, 1))], [("-U", (1, 9, 9))], [("-D", (1, 1, 1))]),
        ([("+I", (1, 1, 1))], [("-D", (1, None, None))], [("-D", (1, 1, 1))]),
        ([("+I", (1, 1, 1))], [("-D", (1, 1, 1)), ("+I", (1, 2, 2))], [("-U", (1, 1, 1)), ("+U", (1, 2, 2))]),
        ([("-D", (1, 1, 1))], [("+U", (1, 2, 2))], [("+I", (1, 2, 2))]),
        ([("-D", (1, 1, 1))], [("-D", (1, 1, 1))], []),
        ([], [("-D", (1, 1, 1)), ("-U", (2, 1, 1))], []),
        ([], [("+I", (1, 1, 1)), ("-D", (1, 1, 1))], []),
        ([("+I", (1, 1, 1))], [("+I", (1, 1, 1))], [("-U", (1, 1, 1)), ("+U", (1, 1, 1))]),
    ],
)
def test_a_row_changes_the_row_that_the_files_have(
    tmp_path: Path, old: list[Change], changes: list[Change], expected: list[Change]
) -> None:
    found = change(make(tmp_path), changes, old)
    assert with_kinds(found.changes, found.kinds) == expected
    after = [row for kind, row in expected if kind in ("+I", "+U")]
    assert [row for kind, row in with_kinds(found.staying.rows, found.staying.kinds) if kind[0] == "+"] == after
    assert found.staying.rows.num_rows == sum(kind != "-U" for kind, _ in expected)
    assert found.staying.given_count == len(changes)


def test_changes_have_the_place_of_the_last_row_of_their_key(tmp_path: Path) -> None:
    old: list[Change] = [("+I", (3, 1, 1)), ("+I", (1, 1, 1))]
    given: list[Change] = [
        ("+I", (3, 2, 2)),
        ("+I", (2, 1, 1)),
        ("-D", (9, 1, 1)),
        ("+I", (3, 4, 4)),
        ("-D", (1, 1, 1)),
    ]
    table = make(tmp_path)
    found = change(table, given, old)
    expected = [("-D", (1, 1, 1)), ("+I", (2, 1, 1)), ("-U", (3, 1, 1)), ("+U", (3, 4, 4))]
    assert with_kinds(found.changes, found.kinds) == expected
    assert found.positions.tolist() == [4, 1, 3, 3]
    assert found.staying.positions.tolist() == [4, 1, 3]


@pytest.mark.parametrize("row", [(1, None, 2), (1, 1, None), (1, None, None)])
def test_an_update_that_changes_nothing_can_be_left_out_of_both_stores(tmp_path: Path, row: Row) -> None:
    table = make(tmp_path, DEDUPLICATED)
    same = change(table, [("+I", row)], [("+I", row)])
    assert (same.changes.num_rows, same.staying.rows.num_rows, same.staying.given_count) == (0, 0, 1)
    others = change(table, [("+I", (1, 7, 7)), ("+I", (2, 1, 1))], [("+I", row), ("+I", (2, 1, 1))])
    assert with_kinds(others.changes, others.kinds) == [("-U", row), ("+U", (1, 7, 7))]


def test_columns_that_are_ignored_would_be_in_no_record(tmp_path: Path) -> None:
    ignored = {"changelog-producer.row-deduplicate-ignore-fields": "b"}
    with pytest.raises(InvalidRequestError, match="ignore-fields=b: files would hold values that no record has"):
        check_loggable(make(tmp_path, DEDUPLICATED | ignored).schema, table_name="db.t")


def test_a_looked_up_changelog_is_in_files_of_each_batch_for_every_engine(tmp_path: Path) -> None:
    table = make(tmp_path, {"changelog-producer": "lookup"})
    assert CHANGELOG_PRODUCER.of(table.schema.options) == "lookup"
    assert table.schema.has_changelog_at_write
    assert '"changelog-producer": "input"' in (tmp_path / "t" / "schema" / "schema-0").read_text()
    opened = FileStoreTable.open(tmp_path / "t", UNSYNCED)
    assert opened.schema == table.schema
    assert CHANGELOG_PRODUCER.of(opened.stored.schema.options) == "input"


def test_tables_whose_compactions_write_the_changelog_go_on_so(tmp_path: Path) -> None:
    """Their schema file names the producer in the open: level 0 may have rows that are in no changelog yet."""
    table = make(tmp_path)
    path = tmp_path / "t" / "schema" / "schema-0"
    path.write_text(altered_by_others(table.schema, **{"changelog-producer": "lookup"}))
    older = FileStoreTable.open(tmp_path / "t", UNSYNCED)
    assert not older.schema.has_changelog_at_write
    assert CHANGELOG_PRODUCER.of(older.stored.schema.options) == "lookup"


def test_changelog_files_count_both_halves_of_an_update_by_the_new_row(tmp_path: Path) -> None:
    table = make(tmp_path, {"changelog-producer": "lookup"})
    found = change(table, [("+I", (1, 2, 2)), ("+I", (2, 1, 1))], [("+I", (1, 1, 1))])
    (file,) = write_changelog(table, BUCKET, found, first_sequence=10, names=FileNames())
    assert file.file_name.startswith("changelog-")
    fields = [*table.schema.fields, SEQUENCE_FIELD, KIND_FIELD]
    batches = list(read_data_file(table.stored, BUCKET, file, fields, piece_bytes=1 << 20))
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == [
        (1, 1, 1, 10, 1),
        (1, 2, 2, 10, 2),
        (2, 1, 1, 11, 0),
    ]


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    CACHE.clear()
    yield
    CACHE.clear()


class Written:
    """A table of `count` rows with even ids, in one run of the highest level."""

    def __init__(
        self, folder: Path, count: int, options: Mapping[str, str] | None = None, columns: pa.Schema = SCHEMA
    ) -> None:
        self.file_io = CountingFileIO()
        self.table = make(folder / str(count), options, self.file_io, columns)
        self.count = count
        random = np.random.default_rng(3)
        numbers = random.integers(0, 1 << 62, (2, count))
        values = [pa.array(2 * np.arange(count)), *(pa.array(one) for one in numbers)]
        if len(columns) > len(values):
            digits = random.integers(ord("0"), ord("z"), count * WIDTH, np.uint8)
            ends = pa.py_buffer(WIDTH * np.arange(count + 1, dtype=np.int32))
            values.append(pa.Array.from_buffers(pa.string(), count, [None, ends, pa.py_buffer(digits)]))
        rows = pa.table(values, schema=columns)
        append_anyhow(self.table, write_rows(self.table, rows, first_sequence=starting_at(0)).entries)
        self.table.compact(full=True)
        snapshot = self.table.snapshots.latest()
        assert snapshot is not None
        (self.entry,) = self.table.live_files.of(snapshot).entries()
        self.base = PartBase(first_sequence=count, snapshot_id=snapshot.id, tail=())

    def bytes_of(self, ids: Iterable[int]) -> int:
        """The bytes that are read to resolve rows with these ids."""
        before = self.file_io.bytes_read
        numbers = np.fromiter(ids, np.int64)
        columns = self.table.schema.arrow_schema
        values = [
            pa.array(np.ones(len(numbers), np.int64))
            if pa.types.is_int64(field.type)
            else pa.nulls(len(numbers), field.type)
            for field in columns
        ]
        given = pa.table([pa.array(numbers), *values[1:]], schema=columns)
        kinds = pa.array(np.zeros(len(numbers), np.int8))
        found = resolve(self.table, BucketRows(bucket_id=BUCKET, rows=given, kinds=kinds), self.base)
        old = np.count_nonzero((numbers < 2 * self.count) & (numbers % 2 == 0))
        assert found.changes.num_rows == len(numbers) + old
        return self.file_io.bytes_read - before

    def random(self, seed: int, *, are_there: bool) -> list[int]:
        """Ids of all parts of the table; those of rows are even."""
        chosen = np.random.default_rng(seed).choice(self.count - 1, self.count // 50, replace=False)
        return [2 * number + (not are_there) for number in chosen.tolist()]


@pytest.mark.parametrize("options", [{}, SUMMED], ids=["the last change", "merged at write"])
def test_bytes_read_grow_with_neighbouring_keys_and_not_with_the_table(
    tmp_path: Path, options: Mapping[str, str]
) -> None:
    small, large = Written(tmp_path, MANY, options), Written(tmp_path, 8 * MANY, options)
    read = {table.count: table.bytes_of(range(2_000, 2_000 + 2 * NEIGHBOURS)) for table in (small, large)}
    assert read[8 * MANY] < 1.5 * read[MANY]
    assert read[8 * MANY] < large.entry.file.file_size_bytes / 5
    CACHE.clear()
    wide = large.bytes_of(range(2_000, 2_000 + 2 * 4 * MANY))
    assert wide > 3 * read[8 * MANY]


def test_random_keys_that_are_new_read_the_key_columns_once(tmp_path: Path) -> None:
    table = Written(tmp_path, 2 * MANY, columns=WIDE)
    first = table.bytes_of(table.random(1, are_there=False))
    assert 0 < first < table.entry.file.file_size_bytes / 2
    assert [table.bytes_of(table.random(seed, are_there=False)) for seed in (2, 3)] == [0, 0]


def test_random_keys_read_rows_once_while_the_cache_holds_them(tmp_path: Path) -> None:
    table = Written(tmp_path, 4 * MANY)
    assert table.bytes_of(table.random(1, are_there=True)) > table.entry.file.file_size_bytes / 2
    assert [table.bytes_of(table.random(seed, are_there=True)) for seed in (2, 3)] == [0, 0]


def test_a_small_cache_holds_key_columns_and_never_more_than_it_may(tmp_path: Path) -> None:
    """4 bytes of a key and half of the rows: rows that do not fit are read again, keys are not."""
    limit = 4 * MANY * 8 + 4 * MANY * 12
    table = Written(tmp_path, 4 * MANY, {"lookup.cache-max-memory-size": str(limit)})
    read = [table.bytes_of(table.random(seed, are_there=True)) for seed in (1, 2, 3)]
    assert 0 < read[1] == read[2] < read[0]
    assert CACHE.size_bytes <= limit
    assert table.bytes_of(table.random(4, are_there=False)) == 0


def test_without_a_cache_every_batch_reads_the_files(tmp_path: Path) -> None:
    table = Written(tmp_path, MANY, {"lookup.cache-max-memory-size": "0"})
    _, *read = [table.bytes_of(table.random(1, are_there=True)) for _ in range(3)]  # the first reads the footer too
    assert read[0] == read[1] > 0
    assert CACHE.size_bytes == 0


def test_keys_outside_of_the_files_read_nothing(tmp_path: Path) -> None:
    table = Written(tmp_path, MANY)
    assert table.bytes_of(range(2 * MANY, 2 * MANY + 500)) == 0


def test_row_groups_that_are_looked_up_are_small(tmp_path: Path) -> None:
    table = Written(tmp_path, 8 * MANY)
    footer = pq.ParquetFile(table.table.data_path(BUCKET, table.entry.file)).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    assert max(group.total_byte_size for group in groups) <= 4 << 20
    assert max(group.num_rows for group in groups) <= 16_384
