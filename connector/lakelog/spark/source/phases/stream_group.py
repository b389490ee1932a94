"""Streams of one query that move together: the batches of a group end at consistent snapshots of all its tables.

Spark asks each stream separately where its batch ends. The stream that is asked first decides for all, from the
snapshots up to which all have read; the others find the decision. Each offset of a member has the positions of all
members, so the offset identifies the next decision, even if the stream itself did not move.
Source: docs/rfcs/0039-snapshot-lineage.md, "Aligned sources".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.tables import TableStore
from lakelog.spark.source.reading.group_folder import GroupFolder
from lakelog.streams.options.align_options import GroupOptions
from lakelog.streams.reading.offsets import Positions

logger = logging.getLogger("lakelog.spark")

Heads = Mapping[str, int]
"""The newest snapshot of each table that counts, by the identity of the table; 0 is none."""


class NextPositions(Protocol):
    """Finds where the next batch of a group ends; None while there is nothing to read."""

    def __call__(
        self, tables: Mapping[str, TableStore], behind: Positions | None, heads: Heads, *, steps: int | None
    ) -> Positions | LakelogError | None:
        """The positions after these, at most `steps` further; after None, the first ones, which are the newest.

        An error if there may be some once a writer has progressed: it says what they wait for.
        """
        ...


class StreamGroup:
    """A stream's membership in a group."""

    def __init__(
        self,
        options: GroupOptions,
        folder: GroupFolder,
        *,
        table: str,
        open_tables: Callable[[], Mapping[str, TableStore]],
        next_positions: NextPositions,
        steps: int | None,
        timeout_millis: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open nothing yet. Tables are identified by their identities; `table` is that of the stream's own table.

        A batch takes `steps` versions at most. At its start a group waits `timeout_millis` for a writer that lags.
        """
        self._options = options
        self._folder = folder
        self._table = table
        self._open_tables = open_tables
        self._next = next_positions
        self._steps = steps
        self._timeout_millis = timeout_millis
        self._clock = clock
        self._tables: Mapping[str, TableStore] | None = None
        self._token: str | None = None
        self._is_leader: bool | None = None
        self._fixed: Heads | None = None
        self._in_vain: tuple[Positions | None, Heads] | None = None
        self._lag: LakelogError | None = None
        self._since: float | None = None
        self._forgot: Positions | None = None

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._options.name

    def enter(self) -> None:
        """Enter a run; called before any stream of the group is asked for the end of a batch."""
        if self._token is None:
            self._token = self._folder.enter(self._table)

    def fix(self) -> None:
        """From now on, take no snapshot that does not exist yet."""
        self.enter()
        self._fixed = self._heads()

    def end_behind(self, behind: Positions | None) -> Positions | None:
        """The end of the batch that all members begin at these positions; None while there is nothing to read."""
        tables = self._opened()
        if behind is not None and behind.keys() != tables.keys():
            raise InvalidRequestError(
                f"the query has read other tables in the group {self.name!r} before: the checkpoint has positions of "
                f"{len(behind)} tables, the group now has {listed(self._options.tables)}. Start the query with a "
                "new checkpoint location, or read the same tables as before"
            )
        found = self._folder.find(behind)
        if found is not None or not self._leads(tables):
            return found
        heads = self._heads() if self._fixed is None else self._fixed
        if (behind, heads) != self._in_vain:
            next_ones = self._next(tables, behind, heads, steps=self._steps)
            if next_ones is not None and not isinstance(next_ones, LakelogError):
                return self._decided(tables, behind, next_ones)
            self._in_vain, self._lag = (behind, heads), next_ones
        self._check_waited()
        return None

    def _decided(self, tables: Mapping[str, TableStore], behind: Positions | None, found: Positions) -> Positions:
        decided = self._folder.decide(behind, found)
        ends = {tables[key].name: at.snapshot_id for key, at in decided.items()}
        logger.info("group %s reads up to %s", self.name, ends)
        self._since = None
        return decided

    def _check_waited(self) -> None:
        """Raise the error that says what the streams wait for, if they have waited too long or do not wait."""
        if self._lag is None:
            return
        if self._since is None:
            logger.info("group %s waits: %s", self.name, self._lag)
            self._since = self._clock()
        if self._fixed is not None or (self._clock() - self._since) * 1000 > self._timeout_millis:
            raise self._lag

    def let_go(self, reached: Positions) -> None:
        """Delete decisions that no batch after these committed positions needs."""
        if self._is_leader and self._forgot != reached:
            self._folder.forget(reached)
            self._forgot = reached

    def own(self, positions: Positions) -> TableVersion:
        """The position of the stream's own table."""
        return positions[self._table]

    def _leads(self, tables: Mapping[str, TableStore]) -> bool:
        if self._is_leader is None:
            self.enter()
            assert self._token is not None
            names = {identity: table.name for identity, table in tables.items()}
            self._is_leader = self._folder.leads(self._table, self._token, names)
        return self._is_leader

    def _opened(self) -> Mapping[str, TableStore]:
        if self._tables is None:
            tables = self._open_tables()
            if self._table not in tables:
                raise InvalidRequestError(
                    f"a stream of the group {self.name!r} reads a table that is none of {listed(self._options.tables)}"
                )
            self._tables = tables
        return self._tables

    def _heads(self) -> Heads:
        return {identity: table.snapshots.latest_id() or 0 for identity, table in self._opened().items()}
