"""Rows gathered within a budget of memory; what exceeds it goes to temporary files, split by a hash of the key.

A temporary file has no name (`TMPDIR` says on which file system): the system frees it when it is closed or the process
ends in any way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from lakelog.common.errors import UnavailableError
from lakelog.common.types import DataField
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET

PART_COUNT = 64  # more than this times the budget at once is rare, and then a part is larger than the budget


class KeyParts:
    """Rows in the order in which they come, in parts: all rows of a key are in one, in their order.

    There is one part while `budget_bytes` hold all rows. A context manager, which frees the temporary files.
    """

    def __init__(self, key_fields: Sequence[DataField], *, budget_bytes: int) -> None:
        """Hold nothing yet."""
        self._key_fields = key_fields
        self._budget_bytes = budget_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._files: dict[int, _PartFile] = {}

    def __enter__(self) -> KeyParts:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._files.values():
            part.file.close()
        self._files, self._held = {}, []

    @property
    def is_spilled(self) -> bool:
        """Whether rows are in temporary files."""
        return bool(self._files)

    def add(self, rows: pa.Table) -> None:
        """Add rows, all with the same columns. Raises UnavailableError when they cannot be written."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._budget_bytes:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """The parts, none of them empty. Raises UnavailableError."""
        if not self._files:
            held, self._held = self._held, []
            if held:
                yield pa.concat_tables(held)
            return
        self._spill()
        for part in self._files.values():
            yield part.read()

    def _spill(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        codes = (key_frame(rows, self._key_fields).hash_rows(seed=0) % PART_COUNT).to_numpy()
        order = np.argsort(codes, kind="stable")
        ordered = rows.take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(codes[order], return_index=True)
        ends = [*starts[1:], rows.num_rows]
        with _disk_errors_named():
            for number, start, end in zip(numbers, starts, ends, strict=True):
                part = self._files.get(int(number))
                if part is None:
                    part = self._files[int(number)] = _PartFile.create(rows.schema)
                part.writer.write_table(ordered.slice(start, end - start))
        self._held, self._held_bytes = [], 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartFile:
    """One temporary file, an Arrow stream."""

    file: IO[bytes]
    writer: pa.ipc.RecordBatchStreamWriter

    @classmethod
    def create(cls, schema: pa.Schema) -> _PartFile:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `KeyParts`
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        return cls(file=file, writer=pa.ipc.new_stream(file, schema, options=options))

    def read(self) -> pa.Table:
        """All rows, after which none can be added."""
        with _disk_errors_named():
            self.writer.close()
            self.file.seek(0)
            with pa.ipc.open_stream(self.file) as reader:
                return reader.read_all()


@contextmanager
def _disk_errors_named() -> Iterator[None]:
    """Raise UnavailableError for an error of the disk."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"rows beyond {READ_MEMORY_BUDGET.key} could not be spilled to {tempfile.gettempdir()}: {error}; let "
            f"TMPDIR name a folder with more space, set {READ_MEMORY_BUDGET.key} higher, or let a batch read fewer rows"
        ) from error
