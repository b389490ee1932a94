"""Index files: written once, durable before a manifest names them."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.schema.paths import FileNames


def write_index_file(table: TableStore, data: bytes) -> str:
    """Write an index file, and give its name. No snapshot names it yet. Raises UnavailableError."""
    name = FileNames().index_file(data)
    path = table.paths.index(name)
    table.file_io.make_dirs(table.paths.index_dir)
    with table.file_io.open_output(path) as output:
        output.write(data)
    table.file_io.sync(path)
    return name


def discard_index_files(table: TableStore, names: Iterable[str]) -> None:
    """Delete index files that no snapshot names."""
    discard_files(table, map(table.paths.index, names))
