"""Orphan files: files that no snapshot, changelog, tag or branch names, left by writers and expiries that were cut off.

First the files that may be orphans are listed, then the names in all snapshots are collected, so that the files of a
commit made meanwhile are found to be named. A file that a writer has not named yet is recognized only by its age, so
younger files are kept.

The search covers the folders of the table's files: manifests, indexes, statistics, the lineage of fields, and the
buckets; other folders hold at most temporary files. Data at external paths is never deleted: another table may share
it.
Source: Paimon spec, "Manage snapshots", "Remove orphan files"; Paimon, `OrphanFilesClean`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError
from lakelog.common.progress import counted
from lakelog.filestore.expire.references import BranchHistory, References, history_of
from lakelog.filestore.expire.retention_rules import DEFAULT_AGE_MILLIS
from lakelog.filestore.io.fileio import FileEntry
from lakelog.filestore.metadata.snapshots.commit_line import line_folder
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import AGE_MILLIS_MIN
from lakelog.filestore.options.layout import DATA_FILE_DIRECTORY
from lakelog.filestore.options.writing import LINEAGE_FIELDS_RETAINED
from lakelog.filestore.schema.paths import TablePaths

logger = logging.getLogger("lakelog.filestore")

_TEMPORARY = re.compile(r"\..+\.tmp")
_BUCKET = re.compile(r"bucket-(\d+|postpone)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanFile:
    """A file that nothing names."""

    path: str
    size_bytes: int
    modified_millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Orphans, deleted unless `is_dry_run`: files, and old folders of buckets and partitions left empty."""

    files: tuple[OrphanFile, ...]
    folders: tuple[str, ...]
    is_dry_run: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


NamedElsewhere = Callable[[], Collection[str]]


def remove_orphan_files(
    table: TableStore,
    *,
    named_elsewhere: NamedElsewhere,
    older_than_millis: int = DEFAULT_AGE_MILLIS,
    is_dry_run: bool = True,
    allows_young: bool = False,
    now_millis: int | None = None,
) -> Orphans:
    """Delete the files older than an age that nothing names, or with `is_dry_run` only find them.

    `named_elsewhere` gives the names of files that will be in a later snapshot: it is called before the snapshots are
    read. Raises InvalidRequestError for an age below an hour without `allows_young`: no snapshot names the files of a
    running write yet. Raises CorruptDataError if metadata that names files is damaged or missing; then nothing is
    deleted.
    """
    if older_than_millis < AGE_MILLIS_MIN:
        if not allows_young:
            raise InvalidRequestError(
                f"files younger than {AGE_MILLIS_MIN} ms may belong to a write that runs now, found {older_than_millis}"
                " ms; give a longer age, or state that there is no writer: allow_young=True, --allow-young"
            )
        logger.warning(
            "%s: searching for orphans as young as %d ms: the files of a write that runs now would be among them",
            table.name,
            older_than_millis,
        )
    now = system_millis() if now_millis is None else now_millis
    retained = LINEAGE_FIELDS_RETAINED.of(table.schema.options)
    found = _Candidates(
        table,
        before_millis=now - older_than_millis,
        documents_before_millis=now - max(older_than_millis, retained),
    )
    found.look()
    named = set(named_elsewhere())
    named |= _named(table, holds_after_millis=now - older_than_millis)
    files = [file for file in found.files if not _is_named(file.path, named)]
    if is_dry_run:
        deleted = {file.path for file in files}
        folders = [folder for folder in found.folders if found.is_emptied(folder, deleted)]
        return Orphans(files=tuple(files), folders=tuple(folders), is_dry_run=True)
    for file in counted(files, "files deleted", total=len(files)):
        table.file_io.delete(file.path)
    folders = [folder for folder in found.folders if table.file_io.delete_empty_dir(folder)]
    for branch in table.branch_names():
        _name_oldest(table, history_of(table, branch))
    return Orphans(files=tuple(files), folders=tuple(folders), is_dry_run=False)


def _named(table: TableStore, *, holds_after_millis: int) -> set[str]:
    """The names in all branches, including those of snapshots that are committed meanwhile."""
    references = References(table, holds_after_millis=holds_after_millis)
    for branch in table.branch_names():
        history = history_of(table, branch)
        newest = references.add_branch(history)
        while newest is not None:
            behind = history.snapshots.find(newest.id + 1)
            if behind is not None:
                references.add_state(behind)
                references.add_changelog(behind)
            newest = behind
    return references.names


def _name_oldest(table: TableStore, history: BranchHistory) -> None:
    """Let the hint name the oldest snapshot, where an expiry begins, instead of one after a gap.

    Such a hint comes with a branch that another engine puts after the table's snapshots. An expiry that runs now leaves
    no gap before the snapshot that the hint names.
    """
    ids, hint = history.snapshots.ids(), read_hint(table.file_io, history.paths.earliest_hint)
    if hint in ids and hint != ids[0] and hint - 1 not in ids:
        history.snapshots.write_earliest_hint(ids[0])


def _is_named(path: str, named: Collection[str]) -> bool:
    folder, _, name = path.rpartition("/")
    if name in named:
        return True
    # Other engines write files beside a manifest whose names begin with the manifest's.
    return folder.endswith("/manifest") and name.partition(".")[0] in named


class _Candidates:
    """The old files of a table, and the old folders of its buckets and partitions, deepest first."""

    def __init__(self, table: TableStore, *, before_millis: int, documents_before_millis: int) -> None:
        self._table = table
        self._before_millis = before_millis
        self._documents_before_millis = documents_before_millis
        self._content: dict[str, list[str]] = {}  # of each folder
        self.files: list[OrphanFile] = []
        self.folders: list[str] = []

    def look(self) -> None:
        """List every folder that may hold files of the table."""
        root = self._table.path
        for folder in ("manifest", "index", "statistics"):
            self._add_files(f"{root}/{folder}")
        self._add_files(self._table.paths.fields_dir, before_millis=self._documents_before_millis)
        for branch in self._table.branch_names():
            own = TablePaths(root, branch)
            for folder in (own.snapshot_dir, own.schema_dir, own.tag_dir, own.changelog_dir, own.consumer_dir):
                self._add_files(folder, only=_TEMPORARY)
            self._add_files(line_folder(own))
        sub_folder = DATA_FILE_DIRECTORY.of(self._table.schema.options)
        self._walk(f"{root}/{sub_folder}" if sub_folder else root, list(self._table.schema.partition_keys))

    def is_emptied(self, folder: str, deleted: Collection[str]) -> bool:
        """Whether an old folder is empty without the files `deleted`. Must be called for the deepest folders first."""
        return all(
            path in deleted or (path in self._content and self.is_emptied(path, deleted))
            for path in self._content[folder]
        )

    def _add_files(
        self, folder: str, *, only: re.Pattern[str] | None = None, before_millis: int | None = None
    ) -> list[FileEntry]:
        entries = self._table.file_io.list_entries(folder)
        before = self._before_millis if before_millis is None else before_millis
        for entry in entries:
            if entry.is_folder or entry.modified_millis >= before:
                continue
            if only is None or only.fullmatch(entry.name):
                path = f"{folder}/{entry.name}"
                self.files.append(
                    OrphanFile(path=path, size_bytes=entry.size_bytes, modified_millis=entry.modified_millis)
                )
        return entries

    def _walk(self, folder: str, partition_keys: list[str]) -> None:
        """The buckets below a folder, in partitions of these columns. Folders with other names are skipped."""
        is_top = len(partition_keys) == len(self._table.schema.partition_keys)
        folders = self._folders(folder)
        for entry in counted(folders, "folders listed") if is_top else folders:
            path = f"{folder}/{entry.name}"
            if partition_keys:
                if "=" not in entry.name:
                    continue
                self._content[path] = [f"{path}/{one.name}" for one in self._table.file_io.list_entries(path)]
                self._walk(path, partition_keys[1:])
            elif _BUCKET.fullmatch(entry.name):
                self._content[path] = [f"{path}/{one.name}" for one in self._add_files(path)]
            else:
                continue
            if entry.modified_millis < self._before_millis:
                self.folders.append(path)

    def _folders(self, folder: str) -> Iterator[FileEntry]:
        return (entry for entry in self._table.file_io.list_entries(folder) if entry.is_folder)
