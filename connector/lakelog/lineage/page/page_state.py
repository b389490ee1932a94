"""What the server answers from: the index, which follows the warehouse, and the histories of tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.errors import LakelogError, NotFoundError
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_runs import KnownFields
from lakelog.lineage.columns.questions.field_index import FieldIndex, build_index

REFRESH_SECONDS = 10.0

logger = logging.getLogger("lakelog.lineage")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetHistory:
    """The snapshots of a table, newest first, as JSON; its tags and branches. `next` is the id to continue before."""

    snapshots: Sequence[Mapping[str, object]] = ()
    next: int | None = None
    tags: Sequence[Mapping[str, object]] = ()
    branches: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTaint:
    """From which snapshot on a table is tainted, and the newest clean one before it, None if there is none.

    `fields` are its tainted fields, none if a whole snapshot is wrong; `snapshots` are those made from the wrong one.
    """

    first: int
    last_clean: int | None
    fields: frozenset[str] = frozenset()
    snapshots: frozenset[int] = frozenset()


class Answering(Protocol):
    """What answers are made from."""

    histories: Histories
    now_millis: Callable[[], int]

    def index(self) -> FieldIndex:
        """The index as it is now."""


class Histories(Protocol):
    """Where the snapshots of tables are read."""

    def history(self, dataset: Dataset, *, limit: int, before: int | None) -> DatasetHistory:
        """Some snapshots of a table. A dataset that is not a table of a warehouse has none."""

    def millis_of(self, dataset: Dataset, snapshot: int) -> int | None:
        """When a snapshot was committed; None if it does not live."""

    def taints(
        self, index: FieldIndex, dataset: Dataset, field: str | None, snapshot: int
    ) -> Mapping[Dataset, TableTaint]:
        """What a wrong snapshot of a table, or a field that is wrong from it on, has reached. Raises NotFoundError."""


class NoHistories:
    """For lineage without a warehouse."""

    def history(self, dataset: Dataset, *, limit: int, before: int | None) -> DatasetHistory:  # noqa: ARG002
        """Nothing."""
        return DatasetHistory()

    def millis_of(self, dataset: Dataset, snapshot: int) -> int | None:  # noqa: ARG002
        """Nothing."""
        return None

    def taints(
        self,
        index: FieldIndex,  # noqa: ARG002
        dataset: Dataset,
        field: str | None,  # noqa: ARG002
        snapshot: int,
    ) -> Mapping[Dataset, TableTaint]:
        """Raise NotFoundError."""
        raise NotFoundError(f"snapshot {snapshot} of {'.'.join(dataset)} is not known: no table is served")


class KnownState:
    """What answers are made from: an index that stays as it is, and the histories of its tables."""

    def __init__(self, index: FieldIndex, histories: Histories, now_millis: Callable[[], int] = system_millis) -> None:
        self.histories = histories
        self.now_millis = now_millis
        self._known = index

    def index(self) -> FieldIndex:
        """The index."""
        return self._known


class PageState:
    """Gives the index as it is now: it is read again after some seconds, by one request at a time."""

    def __init__(
        self,
        read: Callable[[], KnownFields],
        *,
        histories: Histories | None = None,
        file: Path | None = None,
        now_millis: Callable[[], int] = system_millis,
        refresh_seconds: float = REFRESH_SECONDS,
    ) -> None:
        """Nothing is read yet. `file` is where the index is kept, None is in memory."""
        self.histories = NoHistories() if histories is None else histories
        self.now_millis = now_millis
        self._read = read
        self._file = file
        self._refresh_seconds = refresh_seconds
        self._lock = Lock()
        self._index: FieldIndex | None = None
        self._watch = Stopwatch()

    def index(self) -> FieldIndex:
        """The index. Raises what reading the warehouse raises, if it was never read."""
        found = self._index
        if found is not None and self._watch.seconds() < self._refresh_seconds:
            return found
        if not self._lock.acquire(blocking=found is None):
            assert found is not None
            return found  # another request reads
        try:
            if self._index is None or self._watch.seconds() >= self._refresh_seconds:
                self._refresh()
            assert self._index is not None
            return self._index
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()
        self._index = None

    def _refresh(self) -> None:
        try:
            known = self._read()
            if self._index is None or not self._index.follow(known):
                # Requests may still use the previous one, which is closed after the last of them.
                self._index = build_index(known, self._file)
        except LakelogError as error:
            if self._index is None:
                raise
            logger.warning("the lineage of fields is shown as it was: %s", error)
        except Exception as error:  # a bug, and what is known already is still an answer
            if self._index is None:
                raise
            logger.error("the lineage of fields is shown as it was: %r", error)
        self._watch = Stopwatch()
