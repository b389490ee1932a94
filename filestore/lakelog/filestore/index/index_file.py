"""Index files: written once, and durable before a manifest names them."""

from __future__ import annotations

from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import FileNames


def write_index_file(table: TableStore, data: bytes) -> str:
    """Write an index file, and return its name. No snapshot names it yet. Raises UnavailableError."""
    name = FileNames().index_file(data)
    path = table.paths.index(name)
    table.file_io.make_dirs(table.paths.index_dir)
    with table.file_io.open_output(path) as output:
        output.write(data)
    table.file_io.sync(path)
    return name
