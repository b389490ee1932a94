"""What the commit of a merge records about the merged branch, as given by the `lineage_keeper` of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.filestore.metadata.tables.store import TakenBranch
from lakelog.filestore.options.writing import LINEAGE_CAPTURE

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.refs.merges.merge_base import BranchLine
    from lakelog.filestore.refs.states.table_state import TableState


def branch_lineage(
    line: BranchLine, snapshot: Snapshot, base: TableState | None, *, combines_rows: bool = False
) -> dict[str, object]:
    """What the commit of a merge records: what the handle records, and the origin of the branch's rows.

    The merge takes the changes since `base`, or without a base the whole branch.
    """
    main = line.main
    given = dict(main.lineage or {})
    if main.lineage_keeper is None or not LINEAGE_CAPTURE.of(main.schema.options):
        return given
    found = main.lineage_keeper.of_branch(_taken(line, snapshot, base, combines_rows=combines_rows))
    return {**given, **found, "sources": [*_sources(given), *_sources(found)]}


def _taken(line: BranchLine, snapshot: Snapshot, base: TableState | None, *, combines_rows: bool) -> TakenBranch:
    fork = line.fork
    if base is not None:
        base_id, commit = (None, None) if base.snapshot is None else (base.snapshot.id, base.snapshot.uuid)
    else:
        base_id, commit = (None, None) if fork is None else (fork.snapshot_id, fork.commit_uuid)
    return TakenBranch(
        main=line.main,
        branch=line.branch,
        snapshot=snapshot,
        base_id=base_id,
        base_commit=commit,
        is_whole=base is None,
        is_begin_known=fork is not None,
        record=line.key,
        combines_rows=combines_rows,
    )


def _sources(lineage: Mapping[str, object]) -> list[object]:
    found = lineage.get("sources", [])
    return list(found) if isinstance(found, list | tuple) else []
