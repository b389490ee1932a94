"""ORC files without checksums: what their footer says of decimals is looked at before Arrow makes types of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.blocks.reader_errors import WatchedInput
from lakelog.filestore.formats.orc.orc import OrcFile
from lakelog.filestore.formats.records import iter_records
from tests.support.attacks.parquet_attacks import FIELDS, ROWS, orc_of_too_many_digits
from tests.support.files.local_files import local_file


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd", "snappy", "lz4"])
def test_a_file_of_others_is_read(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "data.orc"
    plain = ROWS.drop_columns(["t", "d"])
    orc.write_table(plain, str(path), compression=compression)
    with OrcFile(local_file(path)) as file:
        fields = [field for field in FIELDS if field.name in plain.column_names]
        assert sum(batch.num_rows for batch in file.iter_batches(fields, batch_rows=100)) == plain.num_rows


def test_a_decimal_of_too_many_digits_is_refused(tmp_path: Path) -> None:
    """The same in a child, where Arrow would end the process, in tests/attacks."""
    path = tmp_path / "data.orc"
    path.write_bytes(orc_of_too_many_digits())
    why = r"it has a decimal of 124 digits, expected at most 38"
    with pytest.raises(CorruptDataError, match=why):
        OrcFile(local_file(path))
    with pytest.raises(CorruptDataError, match=why):
        list(iter_records(path.read_bytes(), path="manifest-1"))


@pytest.mark.parametrize("held", [0, 1, 40, 100, 200])
def test_reads_inside_of_the_end_are_served_from_it(held: int) -> None:
    data = bytes(range(100))
    source = WatchedInput(pa.BufferReader(data))
    source.hold_end(held)
    for start, size in ((0, 5), (60, 40), (60, 100), (99, 1), (95, 3), (100, 5), (70, -1), (0, -1), (59, 10)):
        source.seek(start)
        expected = data[start:] if size < 0 else data[start : start + size]
        assert source.read(size) == expected
        assert source.tell() == start + len(expected)
