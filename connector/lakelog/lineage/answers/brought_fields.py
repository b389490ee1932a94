"""The lineage of fields that the merge of a branch brings: that of the branch's batches since the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.filestore.metadata.origins import BatchLineage, CommittedBatch, readable_batches
from lakelog.filestore.metadata.tables import TakenBranch
from lakelog.lineage.tables.beginnings import line_snapshots


def with_fields_of_branch(lineage: BatchLineage, taken: TakenBranch) -> BatchLineage:
    """The record of a merge, whose batches name the lineage of the fields that their users have written in the branch.

    What was written by users without sources is named by the merge itself.
    """
    named = _named_in(taken)
    brought = [_with_fields(one, named) for one in lineage.brought]
    given = {checksum for one in brought for checksum in one.lineage.fields}
    left = [checksum for found in named.values() for checksum in found if checksum not in given]
    return replace(lineage, brought=brought, fields=tuple(dict.fromkeys(left)))


def _named_in(taken: TakenBranch) -> Mapping[str, Sequence[str]]:
    """The checksums that the branch has named since the base, by user."""
    branch = taken.branch
    first = 1 if taken.is_whole or taken.base_id is None else taken.base_id + 1
    found: dict[str, list[str]] = {}
    for snapshot in line_snapshots(branch, branch.branch, first):
        if snapshot.id > taken.snapshot.id:
            break
        for batch in readable_batches(snapshot):
            for one in (batch, *batch.lineage.brought):
                found.setdefault(one.user, []).extend(one.lineage.fields)
    return found


def _with_fields(batch: CommittedBatch, named: Mapping[str, Sequence[str]]) -> CommittedBatch:
    """The batch, whose user may have a mark behind the name that it has in the branch."""
    user = max((name for name in named if batch.user.startswith(name)), key=len, default=None)
    if user is None:
        return batch
    return replace(batch, lineage=replace(batch.lineage, fields=tuple(dict.fromkeys(named[user]))))
