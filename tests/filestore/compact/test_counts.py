"""A compaction that writes other numbers of rows than it must is not committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: the arguments of calls that are passed on

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.compact import rewriting
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.counted_schema import COUNT_COLUMN
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import count_rows
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, content, content_after, make_table, rows_of


def data_files(table: FileStoreTable) -> set[Path]:
    return set(Path(table.path).glob("bucket-*/*"))


def test_joined_files_of_an_append_table_have_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = build_schema(SCHEMA, primary_keys=[], options={"bucket": "-1", "write-only": "true"})
    table = FileStoreTable.create(f"{tmp_path}/t", schema, UNSYNCED)
    for batch in range(3):
        table.write(rows_of(batch))
    before = data_files(table)

    def fewer(*given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        return (batch.slice(1) for batch in read_data_file(*given, **named))

    with monkeypatch.context() as patched:
        patched.setattr(rewriting, "read_data_file", fewer)
        with pytest.raises(CorruptDataError, match="has written 15 rows, expected 18: nothing was committed"):
            table.compact(full=True)
    assert data_files(table) == before
    assert table.compact(full=True) is not None
    assert count_rows(table) == 18


def test_a_merge_has_no_more_rows_than_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path, options={"write-only": "true"})
    for batch in range(3):
        table.write(rows_of(batch))

    def twice(*given: Any, **named: Any) -> list[DataFileMeta]:
        return 2 * list(write_data_files(*given, **named))

    with monkeypatch.context() as patched:
        patched.setattr(rewriting, "write_data_files", twice)
        with pytest.raises(CorruptDataError, match=r"has written [0-9]+ rows, expected at most [0-9]+"):
            table.compact(full=True)
    assert table.compact(full=True) is not None
    assert content(table) == content_after(3)


def test_a_merge_of_a_value_count_table_keeps_the_sum_of_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = build_schema(
        SCHEMA, primary_keys=[], options={"write-mode": "change-log", "bucket": "1", "write-only": "true"}
    )
    table = FileStoreTable.create(f"{tmp_path}/t", schema, UNSYNCED)
    for _ in range(3):  # equal rows, so a merge that loses some writes no more rows than it reads
        table.write(rows_of(0))
    before = data_files(table)

    def one_less(table: TableStore, bucket: BucketId, pieces: Iterator[StoredRows], **named: Any) -> list[DataFileMeta]:
        return list(write_data_files(table, bucket, map(with_one_less, pieces), **named))

    with monkeypatch.context() as patched:
        patched.setattr(rewriting, "write_data_files", one_less)
        with pytest.raises(CorruptDataError, match="has written counts of 12 rows in all, expected 18: nothing was"):
            table.compact(full=True)
    assert data_files(table) == before
    assert table.compact(full=True) is not None
    assert count_rows(table) == 18


def with_one_less(piece: StoredRows) -> StoredRows:
    """The rows with each count less by one."""
    at = piece.rows.schema.get_field_index(COUNT_COLUMN)
    less = pc.subtract(piece.rows.column(at), 1)
    return replace(piece, rows=piece.rows.set_column(at, piece.rows.schema.field(at), less))
