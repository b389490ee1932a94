"""The history of a table: its snapshots, with the tags that name them and the branches that began at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakelog.common.html import html_table
from lakelog.common.quoting import listed
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.snapshots.operations import operation_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.branch_damage import damage_of_branch
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches.branching import Branch, branch_list
from lakelog.filestore.refs.states.travel import on_branch
from lakelog.filestore.schema.paths import MAIN_BRANCH


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A snapshot of a line. `is_living` is False for one that has expired, and that tags keep.

    `branches` are the branches that began at it.
    """

    snapshot: Snapshot
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    is_living: bool = True

    @property
    def operation(self) -> str | None:
        """The operation that made the snapshot, such as `DELETE`, also in a logged table; None is unknown."""
        return operation_of(self.snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """The main branch or another one: its entries, newest first, without the snapshots before it began.

    `began_at` is the snapshot of the main branch at which it began; None for the main branch, for one that began empty
    and for one of another engine without a shared tag. `left_out` counts older entries that were not requested.
    """

    name: str
    entries: tuple[HistoryEntry, ...]
    began_at: int | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The lines of a table: the main branch first, then the others by name."""

    name: str
    lines: tuple[HistoryLine, ...]

    def __iter__(self) -> Iterator[HistoryLine]:
        return iter(self.lines)

    def __repr__(self) -> str:
        lines = listed(f"{line.name}: {len(line.entries)} snapshots" for line in self.lines)
        return f"History({self.name!r}, {lines})"

    def _repr_html_(self) -> str:
        """The entries, as notebooks show them; no I/O."""
        rows = [
            (
                line.name,
                entry.snapshot.id,
                shown_millis(entry.snapshot.time_millis),
                entry.snapshot.commit_kind.value,
                entry.operation or "",
                ", ".join(entry.tags),
                ", ".join(entry.branches),
            )
            for line in self.lines
            for entry in line.entries
        ]
        return html_table(
            f"history of {self.name}", ("line", "snapshot", "time", "kind", "operation", "tags", "branches"), rows
        )


def history_of(table: TableStore, *, limit: int | None = None) -> History:
    """The history of a table with all its branches, or of the branch that the table is opened on.

    With `limit` each line has only its newest snapshots, and those that a tag names or at which a branch began. Raises
    CorruptDataError for a damaged file; in the table's own history the error names the branch that has it and how it is
    deleted.
    """
    is_main = table.branch == MAIN_BRANCH
    branches = branch_list(table) if is_main else [one for one in branch_list(table) if one.name == table.branch]
    lines = [_line(table, None, branches, limit)] if is_main else []
    for branch in branches:
        with damage_of_branch(branch.name if is_main else MAIN_BRANCH, table.name):
            lines.append(_line(on_branch(table, branch.name), branch, [], limit))
    return History(name=table.name, lines=tuple(lines))


def _line(table: TableStore, branch: Branch | None, branches: list[Branch], limit: int | None) -> HistoryLine:
    began_at = None if branch is None else branch.snapshot_id
    living = set(table.snapshots.ids())
    tagged: dict[int, Snapshot] = {}
    tags: dict[int, list[str]] = {}
    for tag in table.snapshots.readable_tags():
        tagged[tag.snapshot.id] = tag.snapshot
        if not tag.name.startswith(PROTECTING_PREFIX):
            tags.setdefault(tag.snapshot.id, []).append(tag.name)
    forks: dict[int, list[str]] = {}
    for one in branches:
        if one.snapshot_id is not None:
            forks.setdefault(one.snapshot_id, []).append(one.name)
    numbers = sorted((at for at in living | tagged.keys() if began_at is None or at > began_at), reverse=True)
    newest = set(numbers[:limit])
    wanted = [at for at in numbers if at in newest or at in tags or at in forks]
    entries = []
    for at in wanted:
        found = tagged.get(at) if at not in living else table.snapshots.find(at) or tagged.get(at)
        if found is not None:  # not expired since the folder was listed
            entry = HistoryEntry(
                snapshot=found,
                tags=tuple(sorted(tags.get(at, ()))),
                branches=tuple(forks.get(at, ())),
                is_living=at in living,
            )
            entries.append(entry)
    return HistoryLine(
        name=table.branch, entries=tuple(entries), began_at=began_at, left_out=len(numbers) - len(wanted)
    )
