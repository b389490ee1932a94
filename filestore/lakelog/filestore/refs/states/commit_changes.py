"""The files that the commits between two snapshots have added: only these files hold what changed in between.

A compaction rewrites files without changing a row, and may rewrite all of them: then the two states share no file, and
a comparison of their files would read both as a whole. The commits between them still say what was written, as long as
they have not expired. This holds only if each commit shows which rows it changes, which is checked commit by commit:

| commit | must |
|---|---|
| APPEND | add only files of level 0, whose sequence numbers are above all of their bucket at the first snapshot |
| COMPACT | add in no bucket more rows, or other sequence numbers, than it removes from that bucket |
| any other | change no file |

A COMPACT that adds rows of its own, such as that of a postponed bucket, fails the second rule; tables that hide level 0
until it is compacted are left out, since their compactions change what reads show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.live_state import NO_SEQUENCE, LiveFiles
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.changes import changed_entries
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.read.scan import POSTPONE_BUCKET
from lakelog.filestore.refs.states.net_change import BucketDifference
from lakelog.filestore.refs.states.table_state import StateFile, TableState

COMMITS_MAX = 1_000  # their manifests are read one after the other


def differences_by_commits(ancestor: TableState, old: TableState, new: TableState) -> list[BucketDifference] | None:
    """The files that only one of two states has got since an ancestor of both; None if the commits do not show it."""
    added = [added_since(ancestor, state) for state in (old, new)]
    had, has = added
    if had is None or has is None:
        return None
    found = []
    for bucket in sorted({*had, *has}):
        ours, theirs = (_by_name(one.get(bucket, ())) for one in (had, has))
        only_old = [file for name, file in ours.items() if name not in theirs]
        only_new = [file for name, file in theirs.items() if name not in ours]
        if only_old or only_new:
            found.append(BucketDifference(bucket=bucket, only_old=only_old, only_new=only_new, companions=()))
    return found


def added_since(ancestor: TableState, state: TableState) -> dict[BucketId, list[StateFile]] | None:
    """The files that the commits after `ancestor` have added, up to `state`; None if they do not show what changed.

    Reads the manifests of each commit.
    """
    first, last = ancestor.snapshot, state.snapshot
    if first is None or last is None or not 0 <= last.id - first.id <= COMMITS_MAX:
        return None
    if not is_merged_on_read(state.table.stored.schema):
        return None
    begin = live = ancestor.table.live_files.of(first)
    added: dict[BucketId, list[StateFile]] = {}
    for number in range(first.id + 1, last.id + 1):
        commit = last if number == last.id else state.table.snapshots.find(number)
        entries = None if commit is None else _entries(state.table, commit, begin)
        after = None if entries is None else _after(live, entries)
        if commit is None or entries is None or after is None:
            return None
        live = after
        for entry in entries if commit.commit_kind is CommitKind.APPEND else ():
            added.setdefault(entry.bucket_id, []).append((entry.file, None))
    is_whole = _identifiers(live) == _identifiers(state.table.live_files.of(last))
    return added if is_whole else None


def _entries(table: TableStore, commit: Snapshot, begin: LiveFiles) -> list[ManifestEntry] | None:
    """The entries of a commit; None if they do not show which rows it changes."""
    entries = changed_entries(table, commit, ChangeSource.DELTA)
    if commit.commit_kind is CommitKind.APPEND:
        is_plain = all(
            entry.kind is FileKind.ADD
            and entry.bucket != POSTPONE_BUCKET
            and entry.file.level == 0
            and entry.file.min_sequence_number > begin.highest_sequences.get(entry.bucket_id, NO_SEQUENCE)
            for entry in entries
        )
    elif commit.commit_kind is CommitKind.COMPACT:
        is_plain = only_rewrites(entries)
    else:
        is_plain = not entries
    return entries if is_plain else None


def only_rewrites(entries: Sequence[ManifestEntry]) -> bool:
    """Whether all rows of a compaction can come from the files that it removes. Pure."""
    buckets: dict[BucketId, tuple[list[ManifestEntry], list[ManifestEntry]]] = {}
    for entry in entries:
        buckets.setdefault(entry.bucket_id, ([], []))[entry.kind is FileKind.ADD].append(entry)
    for removed, added in buckets.values():
        if added and (
            not removed or sum(one.file.row_count for one in added) > sum(one.file.row_count for one in removed)
        ):
            return False
        if added and not _sequences_inside(added, removed):
            return False
    return True


def _sequences_inside(added: Sequence[ManifestEntry], removed: Sequence[ManifestEntry]) -> bool:
    low = min(entry.file.min_sequence_number for entry in removed)
    high = max(entry.file.max_sequence_number for entry in removed)
    return all(low <= entry.file.min_sequence_number and entry.file.max_sequence_number <= high for entry in added)


def _after(live: LiveFiles, entries: Iterable[ManifestEntry]) -> LiveFiles | None:
    """The files after a commit; None for a commit of another line."""
    try:
        return live.apply(entries)
    except CorruptDataError:
        return None


def _identifiers(live: LiveFiles) -> set[object]:
    return {(entry.bucket_id, entry.identifier) for entry in live.entries()}


def _by_name(files: Iterable[StateFile]) -> dict[str, StateFile]:
    return {file.file_name: (file, vector) for file, vector in files}
