"""What other processes do with a table that a batch is about to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.protocol.state.prepared import PreparedCommits, prepared_names
from lakelog.protocol.state.state import TableState
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.writing.attempts import FENCINGS_MAX, FENCINGS_MAX_BESIDE_WRITERS
from lakelog.protocol.writing.turns import has_turns, is_contended


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """Whether other processes have left batch statements, whether writers are there, and whether any wait."""

    have_left: bool = False
    are_there: bool = False
    wait: bool = False

    @property
    def fencings_max(self) -> int:
        """How often they may fence a bucket of a batch."""
        return FENCINGS_MAX_BESIDE_WRITERS if self.are_there else FENCINGS_MAX

    @classmethod
    def of(cls, names: Sequence[str]) -> OtherWriters:
        """By the names in the folder of prepared commits."""
        return cls(have_left=bool(prepared_names(names)), are_there=has_turns(names), wait=is_contended(names))


def newest_and_others(snapshots: DriverSnapshots) -> tuple[TableState, OtherWriters]:
    """The newest state, and what other processes do; both are asked for at once."""
    table = snapshots.table
    if snapshots.topic_id is None:
        return snapshots.newest(), OtherWriters()
    folder = PreparedCommits(table).folder
    return table.asked_at_once(snapshots.newest, lambda: OtherWriters.of(table.file_io.list_names(folder)))
