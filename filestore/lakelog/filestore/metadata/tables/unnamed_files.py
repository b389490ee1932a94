"""Files that no snapshot names: those of a commit in progress, and those that no commit will name.

Until a snapshot names a file, only its age protects it from `remove_orphan_files`, for at least an hour. A writer that
took longer, or whose machine slept, checks that its files exist before it commits. Between the check and the snapshot a
file can still be deleted, if a removal began before the commit, and the file was older than the removal's age by then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from lakelog.common.errors import ConflictError, UnavailableError
from lakelog.filestore.metadata.manifests.data_file import wall_clock_millis
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")

AGE_MILLIS_MIN = 3_600_000  # longer than a batch takes from its first file to its commit
ASKED_FROM_MILLIS = AGE_MILLIS_MIN // 2  # an hour by one clock may be less by another clock


def check_not_removed(
    table: TableStore, entries: Sequence[ManifestEntry], index_files: Iterable[str], *, now_millis: int
) -> None:
    """Raise ConflictError if a file that these entries add was removed. Files that were just written are not checked.

    `index_files` are the paths of index files that were written with them. Files at external paths are never
    removed by lakelog.
    """
    before = wall_clock_millis(now_millis) - ASKED_FROM_MILLIS
    old = [entry for entry in entries if entry.kind is FileKind.ADD and _is_older(entry, before)]
    if not old:
        return
    paths = [table.data_path(one.bucket_id, one.file) for one in old if one.file.external_path is None]
    for path in [*paths, *index_files]:
        if not table.file_io.exists(path):
            raise ConflictError(
                f"{path} is missing: it is older than {ASKED_FROM_MILLIS // 60_000} minutes, and was removed as an "
                "orphan before the commit named it; write again, and remove orphans of a greater age than a write takes"
            )


def _is_older(entry: ManifestEntry, before_millis: int) -> bool:
    created = entry.file.creation_time_millis
    return created is not None and created < before_millis


def discard_files(table: TableStore, paths: Iterable[str]) -> None:
    """Delete files that no snapshot names. A file that cannot be deleted is left as an orphan file."""
    for path in paths:
        try:
            table.file_io.delete(path)
        except UnavailableError as error:
            logger.warning("%s: file %s is left behind: %s", table.name, path, error)
