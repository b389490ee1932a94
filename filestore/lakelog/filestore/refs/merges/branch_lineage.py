"""What the commit of a merge records of the branch that it takes in: a port, which a part above the file store fills.

Where nothing fills it, as in a process that has imported `lakelog.filestore` alone, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakelog.filestore.options.writing import LINEAGE_CAPTURE

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.refs.merges.merge_base import BranchLine
    from lakelog.filestore.refs.states.table_state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBranch:
    """What a merge takes of a branch: its changes since `base`, or as a whole its rows, whatever the table has.

    `combines_rows`: rows that both have changed are merged column by column.
    """

    line: BranchLine
    snapshot: Snapshot
    base: TableState | None
    combines_rows: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the rows of the branch become those of the table."""
        return self.base is None


DescribeBranch = Callable[["TakenBranch"], Mapping[str, object]]
_describers: list[DescribeBranch] = []


def describe_branches_by(describe: DescribeBranch) -> None:
    """From now on commits of merges record what `describe` gives: an entry of `lakelog.lineage` with its sources."""
    _describers[:] = [describe]


def branch_lineage(taken: TakenBranch) -> dict[str, object]:
    """What the commit of a merge records, without its operation: what the handle does, and where the branch's rows come
    from.
    """
    main = taken.line.main
    given = dict(main.lineage or {})
    for describe in _describers if LINEAGE_CAPTURE.of(main.schema.options) else ():
        found = describe(taken)
        given = {**given, **found, "sources": [*_sources(given), *_sources(found)]}
    return given


def _sources(lineage: Mapping[str, object]) -> list[object]:
    found = lineage.get("sources", [])
    return list(found) if isinstance(found, list | tuple) else []
