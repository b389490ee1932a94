"""Rows in the order in which they arrive: in memory within a budget, and in a temporary file beyond it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakelog.filestore.write.row_file import RowFile
from lakelog.filestore.write.row_input import RowInput


class RowSpool:
    """Rows with one schema, which can be read several times once all are there. `close` frees the temporary file."""

    def __init__(self, schema: pa.Schema, *, budget_bytes: int) -> None:
        """Start without rows."""
        self.schema = schema
        self.row_count = 0
        self._budget_bytes = budget_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._file: RowFile | None = None

    def add(self, rows: pa.Table) -> None:
        """Add rows. Raises UnavailableError when they cannot be written."""
        if not rows.num_rows:
            return
        self.row_count += rows.num_rows
        self._held.append(rows.cast(self.schema))
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._budget_bytes:
            if self._file is None:
                self._file = RowFile.create(self.schema)
            for one in self._held:
                self._file.write(one)
            self._held, self._held_bytes = [], 0

    def table(self) -> pa.Table:
        """All rows, in memory. Raises UnavailableError."""
        return pa.Table.from_batches(self._batches(), self.schema)

    def source(self) -> RowInput:
        """All rows, as a stream if they are not in memory."""
        if self._file is None:
            return RowInput(schema=self.schema, table=self.table())
        return RowInput(schema=self.schema, opened=self._batches)

    def close(self) -> None:
        """Free the temporary file, if there is one."""
        if self._file is not None:
            self._file.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._file is not None:
            yield from self._file.batches()
        for rows in self._held:
            yield from rows.to_batches()
