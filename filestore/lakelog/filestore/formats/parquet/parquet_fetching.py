"""The row groups of a Parquet file that are fetched together, so that a reader holds a bounded part of the file. Pure.

Arrow can prefetch itself, but then it keeps everything until the last requested row group is read: for a whole file it
ends up with the whole file in memory. And its threads may still use a file object of Python when the interpreter ends,
which aborts the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES
from lakelog.filestore.formats.parquet.parquet_bounds import roots_of

_BUFFER_BYTES_MAX = 1 << 20
_BUFFER_BYTES_MIN = 128 << 10  # each read verifies whole blocks: smaller ones read them again and again


@dataclass(frozen=True, slots=True)
class Fetch:
    """Row groups that are read together; with `buffer_bytes`, that much of each column at a time.

    `span` is a range of the file's bytes to fetch at once, None if columns are better fetched one by one.
    """

    groups: list[int]
    span: tuple[int, int] | None = None
    buffer_bytes: int = 0


def fetches_of(
    footer: pq.FileMetaData, names: Sequence[str], groups: Sequence[int], fetch_bytes: int
) -> Iterator[Fetch]:
    """The row groups in order, joined up to `fetch_bytes` of the columns `names`; larger ones in parts."""
    columns = _Columns(footer, names)
    held: list[int] = []
    for group in groups:
        if held and (group != held[-1] + 1 or columns.fetched_bytes([*held, group]) > fetch_bytes):
            yield Fetch(held, columns.span(held))
            held = []
        if columns.fetched_bytes([group]) > fetch_bytes:
            share = fetch_bytes // max(1, len(columns.leaves))
            yield Fetch([group], buffer_bytes=min(max(share, _BUFFER_BYTES_MIN), _BUFFER_BYTES_MAX))
            continue
        held.append(group)
    if held:
        yield Fetch(held, columns.span(held))


def ranges_of(footer: pq.FileMetaData, names: Sequence[str], groups: Sequence[int]) -> list[tuple[int, int]]:
    """The byte ranges of the columns `names` of neighbouring row groups, in the order of the file."""
    columns = _Columns(footer, names)
    span = columns.span(groups)
    return [span] if span is not None else columns.chunks(groups)


class _Columns:
    """The parts of row groups that belong to some columns."""

    def __init__(self, footer: pq.FileMetaData, names: Sequence[str]) -> None:
        wanted = set(names)
        self.leaves = [leaf for leaf, root in enumerate(roots_of(footer.schema.to_arrow_schema())) if root in wanted]
        self._footer = footer
        self._is_dense = 2 * len(self.leaves) > footer.num_columns
        self._dense_groups: dict[int, bool] = {}

    def fetched_bytes(self, groups: Sequence[int]) -> int:
        """The maximum bytes of the file in memory while row groups are read: whole blocks around their columns."""
        span = self.span(groups)
        if span is not None:
            start, end = span
            return -(-end // BLOCK_BYTES) * BLOCK_BYTES - start // BLOCK_BYTES * BLOCK_BYTES
        return sum(self._sparse_bytes(group) for group in groups)

    def _sparse_bytes(self, group: int) -> int:
        found = self._footer.row_group(group)
        sizes: list[int] = [found.column(leaf).total_compressed_size for leaf in self.leaves]
        return sum(sizes) + 2 * BLOCK_BYTES * len(sizes)

    def span(self, groups: Sequence[int]) -> tuple[int, int] | None:
        """The bytes from the first to the last of the columns; None if most of them belong to other columns."""
        if not self._is_dense and not self._fills_blocks(groups[0]):
            return None
        return self._range_of(groups[0])[0], self._range_of(groups[-1])[1]

    def _fills_blocks(self, group: int) -> bool:
        """Whether the columns are in most blocks of a row group: fetched one by one, they would fetch blocks twice."""
        if group not in self._dense_groups:
            chunks = self.chunks([group])
            blocks = {at for start, end in chunks for at in range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))}
            found = self._footer.row_group(group)
            start, _ = _chunk(found.column(0))
            _, end = _chunk(found.column(self._footer.num_columns - 1))
            self._dense_groups[group] = 2 * len(blocks) > -(-end // BLOCK_BYTES) - start // BLOCK_BYTES
        return self._dense_groups[group]

    def chunks(self, groups: Sequence[int]) -> list[tuple[int, int]]:
        """The bytes of each column in each row group."""
        found = [self._footer.row_group(group) for group in groups]
        return [_chunk(group.column(leaf)) for group in found for leaf in self.leaves]

    def _range_of(self, group: int) -> tuple[int, int]:
        chunks = self.chunks([group])
        starts, ends = [start for start, _ in chunks], [end for _, end in chunks]
        return min(starts, default=0), max(ends, default=0)


def _chunk(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    start: int = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    return start, start + chunk.total_compressed_size
