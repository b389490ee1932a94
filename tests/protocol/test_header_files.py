"""Headers of any size: in the record, or in a file that the record names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state.header import BucketFile, CommitHeader, LostFilesError
from lakelog.protocol.state.header_files import RECORD_BYTES_MAX, HeaderFiles, operation_in
from tests.simulation.world import World

WHERE = "topic t, partition 3, offset 5"


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    return Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"]).store


def header_of(table: FileStoreTable, *, files: int) -> CommitHeader:
    meta = World(1, bucket_count=1).write_file([("k", 7, "v")])
    return CommitHeader(
        table_uuid=table.uuid,
        user="q" * 1_000,  # as long as the user likes
        identifier=1,
        source_digest="d",
        schema_id=0,
        base_snapshot_id=0,
        record_count=files,
        size_bytes=42,
        files=tuple(BucketFile(partition=b"", meta=replace(meta, file_name=f"f{at}")) for at in range(files)),
    )


def test_a_small_header_is_in_the_record(table: FileStoreTable) -> None:
    header = header_of(table, files=2)

    data = HeaderFiles(table).write(header, 10_000)

    assert data == header.to_bytes()
    assert HeaderFiles(table).read(data, where=WHERE) == header
    assert table.file_io.list_names(f"{table.path}/manifest") == []


@pytest.mark.parametrize("room_bytes", [256, 10_000, 8 << 20])
def test_a_header_that_does_not_fit_is_a_file_that_the_record_names(table: FileStoreTable, room_bytes: int) -> None:
    header = header_of(table, files=3_000)
    assert len(header.to_bytes()) > RECORD_BYTES_MAX

    data = HeaderFiles(table).write(header, room_bytes)

    assert len(data) < 240
    assert HeaderFiles(table).read(data, where=WHERE) == header
    name = HeaderFiles(table).name_of(data, where=WHERE)
    assert table.file_io.list_names(f"{table.path}/manifest") == [name]


def test_a_missing_or_damaged_header_file_is_an_error_that_names_it(table: FileStoreTable) -> None:
    headers = HeaderFiles(table)
    data = headers.write(header_of(table, files=2), 256)
    name = headers.name_of(data, where=WHERE)
    assert name is not None
    path = Path(table.path, "manifest", name)
    path.write_bytes(path.read_bytes().replace(b"qqq", b"rrr"))

    with pytest.raises(CorruptDataError, match=re.escape(name)):
        headers.read(data, where=WHERE)
    path.unlink()
    with pytest.raises(LostFilesError, match=re.escape(name)):
        headers.read(data, where=WHERE)


@pytest.mark.parametrize(
    "name", ["../../victim", "/etc/passwd", "header-x", f"header-{'a' * 36}-0-blake2b-{'0' * 32}/..", 7, None]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(table: FileStoreTable, name: object) -> None:
    data = json.dumps({"v": 2, "table": table.uuid, "file": name}, separators=(",", ":")).encode()

    with pytest.raises(CorruptDataError, match=WHERE):
        HeaderFiles(table).read(data, where=WHERE)


@pytest.mark.parametrize("data", [b'{"v":2,', b'{"v":2,"table":"t"}', b'{"v":2,"a":' + b"[" * 100_000])
def test_a_record_that_names_no_header_is_an_error_that_names_its_place(table: FileStoreTable, data: bytes) -> None:
    with pytest.raises(CorruptDataError, match=WHERE):
        HeaderFiles(table).read(data, where=WHERE)


def test_a_header_of_another_table_is_not_looked_for(table: FileStoreTable) -> None:
    data = HeaderFiles(table).write(replace(header_of(table, files=2), table_uuid="other"), 256)

    with pytest.raises(CorruptDataError, match="another table"):
        HeaderFiles(table).read(data, where=WHERE)


@pytest.mark.parametrize("room_bytes", [256, 10_000])
def test_the_operation_in_a_statement_is_read_without_its_file(table: FileStoreTable, room_bytes: int) -> None:
    batch = header_of(table, files=2)
    statement = replace(batch, statement="statement-1", lineage={"operation": "MERGE BRANCH"})
    written = HeaderFiles(table).write(statement, room_bytes)
    for path in Path(table.path, "manifest").glob("header-*"):
        path.unlink()

    assert operation_in(written, where=WHERE) == "MERGE BRANCH"
    assert operation_in(HeaderFiles(table).write(batch, room_bytes), where=WHERE) is None
    stream = replace(batch, lineage={"operation": "RESTORE"})  # a stream may call its sources as it likes
    assert operation_in(HeaderFiles(table).write(stream, room_bytes), where=WHERE) is None


@pytest.mark.parametrize(
    "data", [b'{"operation":', b'{"v":2,"operation":7}', b'{"statement":"s","lineage":{"operation":[]}}']
)
def test_a_header_whose_operation_is_not_readable_is_an_error_that_names_its_place(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match=WHERE):
        operation_in(data, where=WHERE)
