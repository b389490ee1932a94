"""Rows with their sequence numbers and kinds, in pieces of the size of a row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Rows as a data file holds them: in key order, each key once, with sequence numbers (int64) and kinds (int8)."""

    rows: pa.Table
    sequences: pa.Array | pa.ChunkedArray
    kinds: pa.Array | pa.ChunkedArray


def joined_pieces(pieces: Iterable[StoredRows], block_bytes: int) -> Iterator[StoredRows]:
    """Small pieces joined to about one row group, large ones cut, empty ones left out."""
    held: list[StoredRows] = []
    held_bytes = 0
    for piece in pieces:
        rows = piece.rows.num_rows
        step = max(1, rows * block_bytes // max(1, piece.rows.nbytes))
        for start in range(0, rows, step):
            part = _slice(piece, start, step)
            held.append(part)
            held_bytes += part.rows.nbytes
            if held_bytes + part.rows.nbytes // 2 >= block_bytes:
                yield _concat(held)
                held, held_bytes = [], 0
    if held:
        yield _concat(held)


def _slice(piece: StoredRows, start: int, length: int) -> StoredRows:
    if start == 0 and length >= piece.rows.num_rows:
        return piece
    return StoredRows(
        rows=piece.rows.slice(start, length),
        sequences=piece.sequences.slice(start, length),
        kinds=piece.kinds.slice(start, length),
    )


def _concat(pieces: Sequence[StoredRows]) -> StoredRows:
    if len(pieces) == 1:
        return pieces[0]
    return StoredRows(
        rows=pa.concat_tables([piece.rows for piece in pieces]),
        sequences=pa.chunked_array([chunk for piece in pieces for chunk in _chunks(piece.sequences)], pa.int64()),
        kinds=pa.chunked_array([chunk for piece in pieces for chunk in _chunks(piece.kinds)], pa.int8()),
    )


def _chunks(values: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
