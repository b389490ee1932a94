"""Documents of lineage of fields that commits name, and that the folder of their table no longer has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakelog.common.errors import LakelogError
from lakelog.common.quoting import cause, shown
from lakelog.filestore.expire import documents_of
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.refs import tags_of
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.columns.field_store import document_path, find_document
from lakelog.lineage.tables.beginnings import PIECE_SNAPSHOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class LostDocument:
    """A document that cannot be read: its file, why, and the snapshots and tags that name it, oldest first."""

    path: str
    why: str
    named_by: tuple[str, ...]


def lost_documents(table: TableStore) -> list[LostDocument]:
    """The lost documents of a table and its branches, by their files. Reads every snapshot and every document.

    Raises CorruptDataError for a snapshot that is not readable.
    """
    named: dict[str, list[str]] = {}
    for name, snapshot in _states(table):
        for document in documents_of(snapshot):
            by = named.setdefault(document.removesuffix(".json"), [])
            if name not in by:
                by.append(name)
    found = []
    for checksum, by in sorted(named.items()):
        why = _problem_of(table, checksum)
        if why is not None:
            found.append(LostDocument(path=document_path(table, checksum), why=why, named_by=tuple(by)))
    return found


def _states(table: TableStore) -> Iterator[tuple[str, Snapshot]]:
    """The living snapshots and the tags of all branches, each with what it is called."""
    for branch in table.branch_names():
        line = replace(table, branch=branch)
        of_branch = "" if branch == MAIN_BRANCH else f" of branch {shown(branch)}"
        first = 1
        while piece := line.snapshots.living(first, count=PIECE_SNAPSHOTS):
            yield from ((f"snapshot {one.id}{of_branch}", one) for one in piece)
            first = piece[-1].id + 1
        yield from ((f"tag {shown(tag.name)}{of_branch}", tag.snapshot) for tag in tags_of(line))


def _problem_of(table: TableStore, checksum: str) -> str | None:
    try:
        found = find_document(table, checksum)
    except LakelogError as error:
        return cause(error)
    return "it is missing" if found is None else None
