"""Gathers rows within a memory budget; rows that exceed it go to temporary files, split by a hash of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.write.row_file import RowFile

PART_COUNT = 64
_DEPTH_MAX = 3  # of parts that are split again; equal keys stay together, however many there are
FrameOf = Callable[[pa.Table, Sequence[DataField]], pl.DataFrame]


class KeyParts:
    """Rows in the order in which they arrive, in parts: all rows of a key are in one part, in their order.

    There is one part while all rows fit in `budget_bytes`. No part exceeds this, unless the rows of one key do. A
    context manager, which frees the temporary files.
    """

    def __init__(
        self, key_fields: Sequence[DataField], *, budget_bytes: int, frame_of: FrameOf = key_frame, depth: int = 0
    ) -> None:
        """Start without rows. `frame_of` gives columns of the key that are equal if the keys are equal.

        `depth` is the number of times that these rows were split already.
        """
        self._key_fields = key_fields
        self._budget_bytes = budget_bytes
        self._frame_of = frame_of
        self._depth = depth
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self.store: dict[int, RowFile] = {}

    def __enter__(self) -> KeyParts:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self.store.values():
            part.close()
        self.store, self._held = {}, []

    @property
    def is_spilled(self) -> bool:
        """Whether rows are in temporary files."""
        return bool(self.store)

    def add(self, rows: pa.Table) -> None:
        """Add rows, all with the same columns. Raises UnavailableError when they cannot be written."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._budget_bytes:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """The parts, none of them empty, as few as the budget allows. Raises UnavailableError."""
        if not self.store:
            rows, self._held = self._held, []
            if rows:
                yield pa.concat_tables(rows)
            return
        self._spill()
        held: list[RowFile] = []
        for part in self.store.values():
            if part.size_bytes > self._budget_bytes and self._depth < _DEPTH_MAX:
                yield from self._split(part)
                continue
            if held and sum(one.size_bytes for one in (*held, part)) > self._budget_bytes:
                yield pa.concat_tables([one.read() for one in held])
                held = []
            held.append(part)
        if held:
            yield pa.concat_tables([one.read() for one in held])

    def _split(self, part: RowFile) -> Iterator[pa.Table]:
        with KeyParts(
            self._key_fields, budget_bytes=self._budget_bytes, frame_of=self._frame_of, depth=self._depth + 1
        ) as finer:
            for batch in part.batches():
                finer.add(pa.Table.from_batches([batch]))
            yield from finer.parts()

    def _spill(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        codes = (self._frame_of(rows, self._key_fields).hash_rows(seed=self._depth) % PART_COUNT).to_numpy()
        order = np.argsort(codes, kind="stable")
        ordered = rows.take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(codes[order], return_index=True)
        ends = [*starts[1:], rows.num_rows]
        for number, start, end in zip(numbers, starts, ends, strict=True):
            part = self.store.get(int(number))
            if part is None:
                part = self.store[int(number)] = RowFile.create(rows.schema)
            part.write(ordered.slice(start, end - start))
        self._held, self._held_bytes = [], 0
