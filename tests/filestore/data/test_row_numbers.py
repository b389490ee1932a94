"""Rows keep their numbers through compactions, updates and deletes of other engines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: rows of a test

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.data.row_numbers import read_numbered
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system import open_system_table
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import UNSYNCED

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
KEPT = {"_ROW_ID": [7, 3, None, 5], "_SEQUENCE_NUMBER": [2, None, 4, 1]}


def write_parquet(rows: pa.Table, path: str) -> None:
    pq.write_table(rows, path)


def write_orc(rows: pa.Table, path: str) -> None:
    orc.write_table(rows, path)


def write_avro(rows: pa.Table, path: str) -> None:
    types = {pa.int64(): "long", pa.string(): "string"}
    fields = [{"name": field.name, "type": ["null", types[field.type]]} for field in rows.schema]
    with Path(path).open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "record", "fields": fields}, rows.to_pylist())


WRITERS: dict[str, Callable[[pa.Table, str], None]] = {"parquet": write_parquet, "orc": write_orc, "avro": write_avro}


def new_table(folder: Path, file_format: str = "parquet") -> FileStoreTable:
    """A table with the rows 1 to 4 in one file, as another engine has written it."""
    schema = build_schema(SCHEMA, options={"bucket": "-1", "file.format": file_format})
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    table.write(pa.table({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]}, schema=SCHEMA))
    return table


def entry_of(table: FileStoreTable) -> ManifestEntry:
    (entry,) = table.live_files.of(latest_of(table)).entries()
    return entry


def rewritten(table: FileStoreTable, columns: dict[str, list[Any]], **changed: Any) -> DataFileMeta:
    """The file of the table with more columns, and a description of it as of another engine."""
    entry = entry_of(table)
    path = table.data_path(entry.bucket_id, entry.file)
    rows = table.to_arrow().sort_by("id")
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values, pa.int64()))
    WRITERS[path.rpartition(".")[2]](rows, path)
    plain = dataclasses.replace(entry.file, checksums=None, file_size_bytes=Path(path).stat().st_size)
    return dataclasses.replace(plain, **{"first_row_id": None, "max_sequence_number": 9, **changed})


def shown(table: FileStoreTable, file: DataFileMeta) -> list[tuple[Any, ...]]:
    batches = read_numbered(table, entry_of(table).bucket_id, file, table.schema.fields, piece_bytes=1 << 20)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("file_format", WRITERS)
def test_numbers_in_a_file_are_those_of_its_rows(tmp_path: Path, file_format: str) -> None:
    """A row without them has the number of its position, and the sequence number of the file."""
    table = new_table(tmp_path, file_format)
    file = rewritten(table, KEPT, first_row_id=100, file_source=FileSource.COMPACT)
    assert shown(table, file) == [(1, "a", 7, 2), (2, "b", 3, 9), (3, "c", 102, 4), (4, "d", 5, 1)]


@pytest.mark.parametrize("file_format", WRITERS)
def test_an_appended_file_has_the_numbers_from_its_first_on(tmp_path: Path, file_format: str) -> None:
    table = new_table(tmp_path, file_format)
    file = rewritten(table, {}, first_row_id=100)
    assert [row[2:] for row in shown(table, file)] == [(100, 9), (101, 9), (102, 9), (103, 9)]


def test_rows_from_before_the_numbering_have_none(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    assert [row[2:] for row in shown(table, rewritten(table, {}))] == [(None, 9)] * 4


def test_the_system_table_shows_compacted_rows_with_their_numbers(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    before = entry_of(table)
    file = rewritten(table, KEPT, file_source=FileSource.COMPACT, level=before.file.level, first_row_id=100)
    added = dataclasses.replace(before, file=dataclasses.replace(file, file_name=f"x{file.file_name}"))
    bucket = before.bucket_id
    Path(table.data_path(bucket, file)).rename(table.data_path(bucket, added.file))
    request = CommitRequest(
        commit_user="engine",
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        kind=CommitKind.COMPACT,
        entries=[dataclasses.replace(before, kind=FileKind.DELETE), added],
    )
    TableCommit(table).commit(lambda _latest: request)
    schema = dataclasses.replace(table.schema, options={**table.schema.options, "row-tracking.enabled": "true"})
    numbered = open_system_table(dataclasses.replace(table, schema=schema), "row_tracking")
    found = numbered.to_arrow(columns=["id", "_ROW_ID", "_SEQUENCE_NUMBER"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 7, 2), (2, 3, 9), (3, 102, 4), (4, 5, 1)]
