"""The changes that one snapshot brought, as its level-0 files hold them: what a reader without a log follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.data_reader import read_data_file
from lakelog.filestore.manifest import FileKind, ManifestEntry
from lakelog.filestore.schema import VALUE_KIND
from lakelog.filestore.snapshot import CommitKind, Snapshot
from lakelog.filestore.store import KIND_FIELD, TableStore

_PIECE_BYTES = 32 << 20


def delta_files(table: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """The files that an APPEND snapshot added, in the order of their sequence numbers; none for other kinds."""
    if snapshot.commit_kind is not CommitKind.APPEND:
        return []
    entries = table.manifests.read_entries(table.manifests.read_list(snapshot.delta_manifest_list))
    added = [entry for entry in entries if entry.kind is FileKind.ADD]
    return sorted(added, key=lambda entry: (entry.partition, entry.bucket, entry.file.min_sequence_number))


def read_delta_file(
    table: TableStore, entry: ManifestEntry, fields: Sequence[DataField], *, kind_name: str
) -> Iterator[pa.RecordBatch]:
    """The rows of a level-0 file in the columns `fields` and their kinds (int8), one row a key.

    Raises NotFoundError when the file has expired.
    """
    names = [*(field.name for field in fields), kind_name]
    bucket = (entry.partition, entry.bucket)
    for batch in read_data_file(table, bucket, entry.file, [*fields, KIND_FIELD], piece_bytes=_PIECE_BYTES):
        columns = [batch.column(name) for name in (*names[:-1], VALUE_KIND)]
        yield pa.RecordBatch.from_arrays(columns, names=names)
