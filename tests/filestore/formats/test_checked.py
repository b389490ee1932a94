"""How a data file's bytes reach its storage."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CheckedInput, ChecksummedFile
from lakelog.filestore.io.fileio import NewFile
from lakelog.filestore.io.local_files import LocalFileIO


class KeptOutput(NewFile):
    """Storage that keeps what it is given, as a multi-part upload does, or fails from some byte on."""

    def __init__(self, fails_after: int | None = None) -> None:
        self.parts: list[bytes | pa.Buffer] = []
        self.is_aborted = False
        self._fails_after = fails_after

    def write(self, data: bytes | pa.Buffer) -> int:
        if self._fails_after is not None and len(self.parts) >= self._fails_after:
            raise OSError("the disk is full")
        self.parts.append(data)
        return len(data)

    def tell(self) -> int:
        return sum(map(len, self.parts))

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


def new_file(monkeypatch: pytest.MonkeyPatch, output: KeptOutput) -> ChecksummedFile:
    monkeypatch.setattr(LocalFileIO, "open_output", lambda *_: output)
    monkeypatch.setattr(LocalFileIO, "sync", lambda *_: None)
    return ChecksummedFile(LocalFileIO(), "f")


def test_small_writes_reach_the_storage_together_and_stay_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    output = KeptOutput()
    file = new_file(monkeypatch, output)
    expected = b""
    for number in range(3_000):
        piece = bytes([number % 251]) * (number % 700)
        file.sink.write(piece)
        expected += piece
        assert file.size_bytes == len(expected)
    assert file.finish() == len(expected)
    assert b"".join(bytes(part) for part in output.parts) == expected
    assert len(output.parts) < 30
    blocks = [expected[at : at + BLOCK_BYTES] for at in range(0, len(expected), BLOCK_BYTES)]
    assert file.checksums == struct.pack(f">{len(blocks)}I", *map(zlib.crc32, blocks))


def test_what_is_given_up_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    output = KeptOutput(fails_after=0)
    file = new_file(monkeypatch, output)
    file.sink.write(b"some bytes")
    with pytest.raises(OSError, match="the disk is full"):
        file.finish()
    file.abort()
    assert output.is_aborted
    assert not output.parts


def test_an_image_has_the_verified_blocks_of_ranges_and_zeros_elsewhere() -> None:
    content = random.Random(1).randbytes(4 * BLOCK_BYTES + 1_000)
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]
    checksums = struct.pack(">5I", *map(zlib.crc32, blocks))
    hidden = bytearray(content)
    hidden[BLOCK_BYTES + 5] ^= 1  # in the second block
    source = pa.BufferReader(bytes(hidden))
    checked = CheckedInput(source, "f", size_bytes=len(content), checksums=checksums)
    ends = [(0, 4), (2 * BLOCK_BYTES, 3 * BLOCK_BYTES + 1), (len(content) - 9, len(content))]
    assert checked.image(ends) == blocks[0] + bytes(BLOCK_BYTES) + b"".join(blocks[2:])
    assert checked.image([]) == bytes(len(content))
    with pytest.raises(CorruptDataError, match="have the checksum"):
        checked.image([(BLOCK_BYTES - 1, BLOCK_BYTES + 1)])


def test_the_blocks_of_ranges_are_verified_and_no_others() -> None:
    content = random.Random(1).randbytes(3 * BLOCK_BYTES + 1_000)
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]
    checksums = struct.pack(">4I", *map(zlib.crc32, blocks))
    hidden = bytearray(content)
    hidden[BLOCK_BYTES + 5] ^= 1  # in the second block
    checked = CheckedInput(pa.BufferReader(bytes(hidden)), "f", size_bytes=len(content), checksums=checksums)
    checked.verify([(0, 4), (2 * BLOCK_BYTES, 3 * BLOCK_BYTES + 1), (len(content) - 9, len(content))])
    with pytest.raises(CorruptDataError, match=f"bytes {BLOCK_BYTES} to {2 * BLOCK_BYTES} have the checksum"):
        checked.verify([(0, 4), (BLOCK_BYTES - 1, BLOCK_BYTES + 1)])
    cut = CheckedInput(pa.BufferReader(content[:-1]), "f", size_bytes=len(content), checksums=checksums)
    with pytest.raises(CorruptDataError, match="have the checksum"):
        cut.verify([(len(content) - 9, len(content))])


def test_a_library_reads_the_very_file_that_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"some bytes")
    checksums = struct.pack(">I", zlib.crc32(b"some bytes"))
    checked = CheckedInput(pa.OSFile(str(path)), "f", size_bytes=10, checksums=checksums)
    path.rename(tmp_path / "g")
    path.write_bytes(b"others")
    own = checked.own_file()
    assert own is not None
    with own:
        assert own.read() == b"some bytes"
    elsewhere = CheckedInput(pa.BufferReader(b""), "f", size_bytes=0, checksums=b"")
    assert elsewhere.own_file() is None
