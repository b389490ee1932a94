"""Rows as JSON strings from several sources, a piece of all sources at a time, in bounded memory.

Up to a budget all rows are in memory and are one piece. Beyond it each source is written to files in a temporary
folder, by a hash of the rows' keys, and a piece is what the sources have of some hashes: memory holds the budget, or
what all sources have of one hash, a 128th of their rows.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType

import polars as pl
import pyarrow as pa

KEY, ROW = "key", "row"
PIECE_COUNT = 128  # files that are open at once
_SEED = 30


class RowPieces:
    """Frames of named sources, each with the string columns `key` and `row` and the same others in every frame."""

    def __init__(self, budget_bytes: int) -> None:
        """Hold no rows yet. Files are in the system's temporary folder until the end of the `with` block."""
        self._budget_bytes = budget_bytes
        self._held: list[tuple[str, pl.DataFrame]] = []
        self._held_bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writers: dict[tuple[str, int], tuple[pa.RecordBatchFileWriter, pa.OSFile]] = {}
        self._source = ""

    def __enter__(self) -> RowPieces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_files()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def is_spilled(self) -> bool:
        """Whether rows are in files."""
        return self._folder is not None

    def add(self, source: str, frame: pl.DataFrame) -> None:
        """Add rows. The rows of a source come together: files of another one are closed."""
        if self._folder is not None:
            self._write(source, frame)
            return
        self._held.append((source, frame))
        self._held_bytes += int(frame.estimated_size())
        if self._held_bytes > self._budget_bytes:
            self._folder = tempfile.TemporaryDirectory(prefix="lakelog-verify-")
            held, self._held = self._held, []
            for name, rows in held:
                self._write(name, rows)

    def pieces(self) -> Iterator[Mapping[str, pl.DataFrame]]:
        """The rows by source, a piece at a time; a source without rows in a piece is left out."""
        if self._folder is None:
            names = dict.fromkeys(name for name, _ in self._held)
            yield {name: pl.concat([rows for one, rows in self._held if one == name]) for name in names}
            return
        self._close_files()
        files = sorted(Path(self._folder.name).iterdir(), key=_number)
        piece: list[Path] = []
        size_bytes = 0
        for _, group in groupby(files, key=_number):
            found = list(group)
            found_bytes = sum(file.stat().st_size for file in found)
            if piece and size_bytes + found_bytes > self._budget_bytes:
                yield _read(piece)
                piece, size_bytes = [], 0
            piece += found
            size_bytes += found_bytes
        yield _read(piece)

    def _write(self, source: str, frame: pl.DataFrame) -> None:
        if source != self._source:
            self._close_files()
            self._source = source
        numbered = frame.with_columns((pl.col(KEY).hash(_SEED) % PIECE_COUNT).alias("piece"))
        for (number,), rows in numbered.partition_by("piece", as_dict=True, include_key=False).items():
            table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._writer(source, int(number), table.schema).write_table(table)

    def _writer(self, source: str, number: int, schema: pa.Schema) -> pa.RecordBatchFileWriter:
        assert self._folder is not None
        place = (source, number)
        if place not in self._writers:
            file = pa.OSFile(str(Path(self._folder.name, f"{source}-{number}")), "wb")
            self._writers[place] = (pa.ipc.new_file(file, schema), file)
        return self._writers[place][0]

    def _close_files(self) -> None:
        for writer, file in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()
            file.close()
        self._writers.clear()


def _number(file: Path) -> int:
    return int(file.name.rpartition("-")[2])


def _read(files: Sequence[Path]) -> dict[str, pl.DataFrame]:
    """The rows of files by source."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for file in files:
        with pa.OSFile(str(file), "rb") as opened:
            rows = pl.DataFrame(pa.ipc.open_file(opened).read_all())
        frames.setdefault(file.name.rpartition("-")[0], []).append(rows)
    return {source: pl.concat(parts) for source, parts in frames.items()}
