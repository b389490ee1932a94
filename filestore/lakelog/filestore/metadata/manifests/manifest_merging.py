"""Chooses the manifests that a commit joins, so that lists stay short and commits cheap. Pure.

The newest manifests are joined first and grow like the digits of a counter: an entry is rewritten a number of times
that grows with the logarithm of the number of entries, and the list holds `count_min` manifests plus that logarithm.
Source: Paimon spec, "Manifest" (merging is free to differ); Paimon, `ManifestFileMerger`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta


def pick_manifests(
    manifests: Sequence[ManifestFileMeta], *, count_min: int, full_size_bytes: int
) -> Sequence[ManifestFileMeta]:
    """The manifests at the end of the list that are due to be joined; none if there are fewer than `count_min`.

    They are the longest end of the list whose oldest manifest is not larger than the others together. All are taken
    when many entries cancel each other, or when those with deletes exceed `full_size_bytes`: only then can every DELETE
    be dropped with its ADD.
    """
    if len(manifests) < count_min:
        return ()
    added = sum(manifest.num_added_files for manifest in manifests)
    deleted = sum(manifest.num_deleted_files for manifest in manifests)
    with_deletes_bytes = sum(manifest.file_size_bytes for manifest in manifests if manifest.num_deleted_files)
    if 3 * deleted > added or with_deletes_bytes > full_size_bytes:
        return manifests
    start, newer = len(manifests), 0
    for index in range(len(manifests) - 1, -1, -1):
        count = manifests[index].num_added_files + manifests[index].num_deleted_files
        if count <= newer:
            start = index
        newer += count
    return manifests[start:] if len(manifests) - start >= count_min else ()
