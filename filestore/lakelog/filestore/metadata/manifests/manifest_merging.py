"""Chooses the manifests that a commit joins, so that lists stay short, commits cheap and plans of a part small. Pure.

Joined manifests are written in the order of partitions, in pieces of a limited size, so that a reader of some
partitions needs few of them. The pieces of one merge follow each other, all full but the last: they count as one.

The newest are joined first and grow like the digits of a counter: an entry is rewritten a number of times that grows
with the logarithm of the number of entries, and the list holds `count_min` merges plus that logarithm. Source: Paimon
spec, "Manifest" (merging is free to differ); Paimon, `ManifestFileMerger`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.manifests.manifest_steps import count_entries

ENTRIES_MAX = 10_000  # of a manifest: a reader of one partition decodes at least one manifest


def pick_manifests(
    manifests: Sequence[ManifestFileMeta], *, count_min: int, full_size_bytes: int
) -> Sequence[ManifestFileMeta]:
    """The manifests at the end of the list that are due to be joined; none if there are fewer than `count_min`.

    They are the longest end of the list whose oldest merge is not larger than the others together. All are taken when
    many entries cancel each other, or when those with deletes exceed `full_size_bytes`: only then can every DELETE be
    dropped with its ADD.
    """
    merges = _merges(manifests)
    if len(merges) < count_min:
        return ()
    added = sum(manifest.num_added_files for manifest in manifests)
    deleted = sum(manifest.num_deleted_files for manifest in manifests)
    with_deletes_bytes = sum(manifest.file_size_bytes for manifest in manifests if manifest.num_deleted_files)
    if 3 * deleted > added or with_deletes_bytes > full_size_bytes:
        return manifests
    start, newer = len(merges), 0
    for index in range(len(merges) - 1, -1, -1):
        count = count_entries(merges[index])
        if count <= newer:
            start = index
        newer += count
    picked = merges[start:] if len(merges) - start >= count_min else []
    return [manifest for merge in picked for manifest in merge]


def _merges(manifests: Sequence[ManifestFileMeta]) -> list[list[ManifestFileMeta]]:
    """The manifests with those that were written together with them: a full one has the next one behind it."""
    merges: list[list[ManifestFileMeta]] = []
    is_open = False
    for manifest in manifests:
        if is_open:
            merges[-1].append(manifest)
        else:
            merges.append([manifest])
        is_open = count_entries([manifest]) >= ENTRIES_MAX
    return merges
