"""Manifests, lists and index manifests are read in whatever format their bytes have."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.records import columnar_records, iter_records
from lakelog.filestore.metadata.manifests.manifest_columns import decode_columns, entries_of
from tests.support.tables.paimon_tables import unpack


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The manifests, lists and index manifests of a table with deletion vectors that Paimon wrote as ORC."""
    root = unpack("orc_manifests", tmp_path_factory.mktemp("orc"))
    return sorted((root / "db.db" / "pk" / "manifest").iterdir())


def as_parquet(data: bytes) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(orc.read_table(pa.BufferReader(data)), buffer)
    return buffer.getvalue()


def test_orc_and_parquet_hold_the_same_records(files: list[Path]) -> None:
    for path in files:
        data = path.read_bytes()
        as_orc = list(iter_records(data, path=str(path)))
        assert as_orc == list(iter_records(as_parquet(data), path=str(path)))
        if "list" in path.name or "index" in path.name:
            continue
        frames = [decode_columns(given, path=str(path)) for given in (data, as_parquet(data))]
        first, second = (list(entries_of(frame)) for frame in frames if frame is not None)
        assert first == second
        assert [entry.file.file_name for entry in first] == [record["_FILE"]["_FILE_NAME"] for record in as_orc]
        assert all(entry.file.creation_time_millis for entry in first)


def test_a_file_that_is_cut_off_is_corrupt(files: list[Path]) -> None:
    for path in files[:4]:
        for data in (path.read_bytes(), as_parquet(path.read_bytes())):
            for size in range(4, len(data), 97):
                with pytest.raises(CorruptDataError, match=path.name):
                    columnar_records(data[:size], path=str(path))


def test_more_records_than_bytes_are_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "manifest-list-0"
    pq.write_table(pa.table({"_VERSION": pa.array([2] * 100_000, pa.int32())}), path)
    with pytest.raises(CorruptDataError, match="manifest-list-0 is damaged: it claims 100000 records in"):
        list(iter_records(path.read_bytes(), path=str(path)))


def test_columns_that_are_not_a_manifests_are_corrupt() -> None:
    buffer = io.BytesIO()
    orc.write_table(pa.table({"id": [1, 2]}), buffer)
    with pytest.raises(CorruptDataError, match="m-0 is damaged: it holds columns that are not a manifest's"):
        decode_columns(buffer.getvalue(), path="m-0")


def test_a_text_that_is_no_utf_8_is_corrupt(files: list[Path]) -> None:
    path = next(found for found in files if "list" not in found.name and "index" not in found.name)
    record = orc.read_table(path)
    name = record["_FILE"].combine_chunks().field("_FILE_NAME")[0].as_py().encode()
    plain = io.BytesIO()
    orc.write_table(record, plain, compression="uncompressed")
    data = plain.getvalue().replace(name, b"\xff" + name[1:])
    assert data != plain.getvalue()
    for use in (lambda: list(iter_records(data, path="m-0")), lambda: decode_columns(data, path="m-0")):
        with pytest.raises(CorruptDataError, match="m-0 is damaged: it is not readable as ORC"):
            use()
