"""Blob files: the complete values of one BLOB column.

One record per value: magic 1481511375 (4 bytes), the value, the bytes of the record (8 bytes), CRC-32 of all bytes
before it (4 bytes). After the records: the lengths of the records as differences in zigzag varints, the bytes of that
(4 bytes), the version 1 (1 byte). Numbers are little endian. The length -1 is a null, -2 a value that is in an older
file. Source: Paimon, `BlobFormatWriter` and `BlobFileMeta`.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.blocks.reader_errors import errors_named
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.io.integrity import damaged

EXTENSION = ".blob"
NULL, ELSEWHERE = -1, -2
_MAGIC = (1_481_511_375).to_bytes(4, "little")
_VERSION = 1
_FOOTER_BYTES = 5
_HEAD_BYTES, _LENGTH_BYTES, _CHECKSUM_BYTES = 4, 8, 4
_RECORD_BYTES_MIN = _HEAD_BYTES + _LENGTH_BYTES + _CHECKSUM_BYTES
_VARINT_BYTES_MAX = 10


class BlobFile:
    """One open blob file. A context manager. `lengths` has the bytes of each record, or `NULL`, or `ELSEWHERE`."""

    def __init__(self, file: StoredFile) -> None:
        self._path = file.path
        self._source = file.open()
        try:
            self.lengths = self._read_lengths()
        except BaseException:
            self._source.close()
            raise
        self._starts = np.cumsum([0, *np.maximum(self.lengths, 0)])

    def __enter__(self) -> BlobFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def row_count(self) -> int:
        """Values in the file."""
        return len(self.lengths)

    def read(self, index: int) -> bytes | None:
        """A value that is in this file. Raises CorruptDataError."""
        size = int(self.lengths[index])
        if size < 0:
            return None
        start = int(self._starts[index])
        record = self._read_at(start, size)
        body, checksum = record[:-_CHECKSUM_BYTES], record[-_CHECKSUM_BYTES:]
        is_whole = body[:_HEAD_BYTES] == _MAGIC and int.from_bytes(body[-_LENGTH_BYTES:], "little") == size
        if not is_whole or zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "little") != checksum:
            raise damaged(self._path, f"the value at byte {start} is not the one that was written")
        return body[_HEAD_BYTES:-_LENGTH_BYTES]

    def _read_at(self, start: int, size: int) -> bytes:
        with errors_named(self._path, "blob"):
            self._source.seek(start)
            data: bytes = self._source.read(size)
        if len(data) < size:
            raise damaged(self._path, f"it ends at byte {start + len(data)}, expected {start + size}")
        return data

    def _read_lengths(self) -> npt.NDArray[np.int64]:
        total = self._source.size()
        if total < _FOOTER_BYTES:
            raise damaged(self._path, f"it has {total} bytes, too few for a blob file")
        footer = self._read_at(total - _FOOTER_BYTES, _FOOTER_BYTES)
        index_bytes = int.from_bytes(footer[:4], "little", signed=True)
        if footer[4] != _VERSION or not 0 <= index_bytes <= total - _FOOTER_BYTES:
            raise damaged(self._path, f"its footer names version {footer[4]} and an index of {index_bytes} bytes")
        end = total - _FOOTER_BYTES - index_bytes
        try:
            lengths = np.cumsum(_varints(self._read_at(end, index_bytes)), dtype=np.int64)
        except CorruptDataError:
            raise
        except ValueError as error:
            raise damaged(self._path, f"its index is not readable: {error}") from error
        present = lengths[lengths >= 0]
        is_known = ((lengths == NULL) | (lengths == ELSEWHERE) | (lengths >= _RECORD_BYTES_MIN)).all()
        if not is_known or (present > end).any() or int(present.sum()) != end:
            raise damaged(self._path, f"its index names {int(present.sum())} bytes of records, it has {end}")
        return lengths


def _varints(data: bytes) -> npt.NDArray[np.int64]:
    """The numbers of zigzag varints, one behind the other. Raises ValueError."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw):
        return np.zeros(0, np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("it is cut off")
    starts = np.append(0, ends[:-1] + 1)
    sizes = ends - starts + 1
    if sizes.max() > _VARINT_BYTES_MAX:
        raise ValueError("it holds a number of too many bytes")
    numbers = np.zeros(len(ends), np.uint64)
    for place in range(int(sizes.max())):
        has = sizes > place
        part = (raw[starts[has] + place] & 0x7F).astype(np.uint64)
        numbers[has] |= part << np.uint64(7 * place)
    return ((numbers >> np.uint64(1)).astype(np.int64)) ^ -((numbers & np.uint64(1)).astype(np.int64))
