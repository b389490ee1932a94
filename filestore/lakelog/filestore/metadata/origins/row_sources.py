"""The origin of a snapshot's rows, kept after earlier snapshots have expired: property `lakelog.sources`.

    {"sources": [{"table", "uuid", "branch", "broken": break, "readers": {reader: state}}, ...], "complete": false,
     "left": [{"uuid", "branch", "readers": [reader, ...]}, ...], "unknown": break}
    a state is {"at", "to": {"snapshot", "commit"}, "since": {...}, "batch", "job", "broken": break, "passing": break},
    a break {"snapshot", "why", "details"}; what is unknown, or false, is left out

Each commit copies the property from the snapshot before and adds its own changes, so that it is true for its own
snapshot. A reader is `statements` for all statements, else the mode of a read, its number among the reads of a batch,
and the user. `to` is the version that the reader has read last, `at` the snapshot of the table in which this was
written, `since` the snapshot with which a stream began: the source knows which overwrites the stream has passed in
between. A reader that a merged branch has brought has the user `user@origin`; `late` says that the same job had read
further in the table by then. A break says since which snapshot the rows show the source at no version, and why, in the
terms of `lakelog.lineage`; a `passing` break ends with the next batch of the reader.

`left` are streams of which no row is left in the table, since an overwrite or a restore removed them: a stream that
continues has a gap. They are named as in the table, without the origin of a branch. For LEFT_MAX streams and more the
property names `*`, which stands for all.

`unknown` says that an unknown state was brought back: a snapshot of another engine, when those of lakelog before it had
expired. Its rows may come from any source, so each named source is shown at no version.

A table has no property until rows of a table are written. A property that older versions of lakelog wrote is not
`complete`: readers that are not in it may have begun before. Source: docs/rfcs/0039-snapshot-lineage.md, "Consistent
versions".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, member, objects, optional, parse_object, string, strings, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins.record import LineKey, ReadMode, TableVersion, line_of, version_in
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX

STATEMENTS = "statements"
ORIGIN_MARK = "@"  # between a user of a merged branch and the branch's origin
LEFT_MAX = 64  # each commit copies them
ALL_READERS = "*"


class Reason(StrEnum):
    """Why a table shows a source at no version."""

    GAP = "gap"  # a stream read on from another snapshot than the one it had reached
    UNSEEN = "unseen"  # a stream has passed an overwrite, whose changes streams of files do not get
    INEXACT = "inexact"  # a stream has read a part of the changes after a snapshot; the next exact batch resolves it
    MIXED = "mixed"  # two versions are shown at once
    CHANGED = "changed"  # rows were changed by hand
    FOREIGN_WRITER = "foreign writer"
    UNKNOWN = "unknown"  # a batch does not record what it read
    MERGED = "merged"  # a branch brought rows of unknown origin
    RESTORED = "restored"  # a state was restored about which nothing is known
    PART = "part"  # the snapshot holds a batch in part
    WAITING = "waiting"  # rows wait for a compaction: no batch read of a snapshot shows exactly the rows that are there
    NOT_KNOWN = "not known"  # the snapshot has expired or was rolled back, and with it what it was made from


class Break(NamedTuple):
    """Since which snapshot a source is shown at no version, why, and details in words.

    `reason` is a value of `Reason`, or one that a newer version of lakelog has recorded.
    """

    snapshot_id: int
    reason: str
    details: str = ""


class WriterName(NamedTuple):
    """The name of a writer: a user and its job, and the `origin` of a merged branch that brought the user."""

    user: str
    job: str | None = None

    @property
    def origin(self) -> str | None:
        """The origin of the branch whose merge has brought the reader; None for a reader of the table itself."""
        _, mark, origin = self.user.rpartition(ORIGIN_MARK)
        return origin if mark and origin.startswith(PROTECTING_PREFIX) else None

    def is_same_job(self, other: WriterName) -> bool:
        """Whether both are one job, in the table or in a branch of it: they create the same rows from a source."""
        return self.own_user() == other.own_user() or (self.job is not None and self.job == other.job)

    def own_user(self) -> str:
        """The user without the branch's origin: the user with which the job writes to its table."""
        return self.user if self.origin is None else self.user.rpartition(ORIGIN_MARK)[0]

    def __str__(self) -> str:
        return f"job {self.job}" if self.job is not None else f"writer {self.user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """What a reader has read last; `last` None means before the first snapshot.

    `snapshot_id` is the snapshot of the reader's own table which has it, `batch` the identifier of its batch, `since`
    where a stream began: None is unknown. `is_late`: when a merge brought what it has read, the same job had read
    further in the table. The next exact batch ends `passing`.
    """

    snapshot_id: int
    last: TableVersion | None
    batch: int
    since: TableVersion | None = None
    is_late: bool = False
    job: str | None = None
    broken: Break | None = None
    passing: Break | None = None


@dataclass(slots=True)
class RowSource:
    """One source of the rows, and what each reader has read of it. `table` is its name, `db.t`."""

    table: str
    readers: dict[str, ReaderState] = field(default_factory=dict)
    broken: Break | None = None

    def writer(self, reader: str) -> WriterName:
        """The name of the writer that a reader belongs to."""
        return WriterName(reader.split(" ", 2)[-1], self.readers[reader].job)


@dataclass(slots=True)
class RowSources:
    """All sources of the rows of a snapshot. `left` are streams whose rows were removed, as `in_table` names them.

    `unknown`: rows may also come from other sources, and each source is shown at no version.
    """

    sources: dict[LineKey, RowSource] = field(default_factory=dict)
    is_complete: bool = True
    left: set[tuple[LineKey, str]] = field(default_factory=set)
    unknown: Break | None = None

    def to_json(self) -> str:
        """The value of the property."""
        sources = [
            {"table": source.table, "uuid": key.uuid}
            | _known(branch=key.branch, broken=_break_to_json(source.broken))
            | {"readers": {name: _reader_to_json(reader) for name, reader in sorted(source.readers.items())}}
            for key, source in sorted(self.sources.items(), key=lambda one: (one[0].uuid, one[0].branch or ""))
        ]
        text: dict[str, object] = {"sources": sources}
        if not self.is_complete:
            text["complete"] = False
        if self.left:
            text["left"] = self._left_to_json()
        text |= _known(unknown=_break_to_json(self.unknown))
        return json.dumps(text, separators=(",", ":"))

    def _left_to_json(self) -> list[dict[str, object]]:
        """If there are too many, all streams of their sources count as left."""
        is_bounded = len(self.left) < LEFT_MAX
        left = self.left if is_bounded else {(key, ALL_READERS) for key, _ in self.left}
        by_source: dict[LineKey, list[str]] = {}
        for key, name in sorted(left, key=lambda one: (one[0].uuid, one[0].branch or "", one[1])):
            by_source.setdefault(key, []).append(name)
        return [{"uuid": key.uuid} | _known(branch=key.branch) | {"readers": names} for key, names in by_source.items()]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RowSources | None:
        """The sources in the properties of a snapshot, None if it has none. Raises CorruptDataError."""
        text = properties.get(PropertyKey.SOURCES)
        if text is None:
            return None
        try:
            fields = parse_object(text)
            return cls(
                sources={line_of(one): _source_of(one) for one in objects(fields, "sources")},
                is_complete=fields.get("complete") is not False,
                left={
                    (line_of(one), name)
                    for one in (objects(fields, "left") if "left" in fields else ())
                    for name in strings(one, "readers")
                },
                unknown=_break_of(fields, "unknown"),
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"snapshot property {PropertyKey.SOURCES} is not readable: {cause(error)}"
            ) from error

    def copy(self) -> RowSources:
        """A copy that changes by itself."""
        sources = {key: replace(one, readers=dict(one.readers)) for key, one in self.sources.items()}
        return replace(self, sources=sources, left=set(self.left))

    def source(self, key: LineKey, table: str) -> RowSource:
        """The state of a source; if rows may come from any source, it may already have rows."""
        return self.sources.setdefault(key, RowSource(table, broken=self.unknown))

    def streams(self) -> Iterator[tuple[LineKey, str]]:
        """The streams that have rows in the table."""
        for key, source in self.sources.items():
            yield from ((key, name) for name in source.readers if mode_of(name) is ReadMode.STREAM)

    def leave(self) -> set[tuple[LineKey, str]]:
        """The streams that have left once all rows are removed, as `in_table` names them."""
        return self.left | {(key, in_table(name)) for key, name in self.streams()}

    def has_left(self, key: LineKey, name: str) -> bool:
        """Whether the rows of a stream were removed."""
        return not self.left.isdisjoint({(key, in_table(name)), (key, ALL_READERS)})

    def in_place_of(self, before: RowSources) -> RowSources:
        """A copy, as the state of a table that had another one `before`: the streams that it lacks have left."""
        found = self.copy()
        found.left = (found.left | before.leave()) - set(found.streams())
        return found

    def break_all(self, found: Break) -> None:
        """From a snapshot on, show all sources that have rows in the table at no version."""
        for source in self.sources.values():
            source.broken = source.broken or found


def reader_name(mode: ReadMode, number: int, user: str) -> str:
    """The name of a reader: the mode of a read, its number among the reads of a batch, and the user."""
    return f"{mode.value} {number} {user}"


def mode_of(reader: str) -> ReadMode:
    """How a reader reads; a statement reads one state."""
    return ReadMode.STREAM if reader.startswith(f"{ReadMode.STREAM.value} ") else ReadMode.BATCH


def in_table(reader: str) -> str:
    """The name that a reader has in the table, without the origin of the merged branch that has brought it."""
    kind, number, user = reader.split(" ", 2)
    return f"{kind} {number} {WriterName(user).own_user()}"


def _source_of(fields: Mapping[str, Any]) -> RowSource:
    readers = member(fields, "readers")
    return RowSource(
        string(fields, "table"),
        readers={name: _reader_of(member(readers, name)) for name in readers},
        broken=_break_of(fields, "broken"),
    )


def _reader_of(fields: Mapping[str, Any]) -> ReaderState:
    return ReaderState(
        snapshot_id=whole(fields, "at", COUNT),
        last=version_in(fields, "to"),
        batch=whole(fields, "batch"),
        since=version_in(fields, "since"),
        is_late=fields.get("late") is True,
        job=optional(string, fields, "job"),
        broken=_break_of(fields, "broken"),
        passing=_break_of(fields, "passing"),
    )


def _reader_to_json(reader: ReaderState) -> dict[str, object]:
    return {"at": reader.snapshot_id, "batch": reader.batch} | _known(
        to=None if reader.last is None else reader.last.to_json(),
        since=None if reader.since is None else reader.since.to_json(),
        late=True if reader.is_late else None,
        job=reader.job,
        broken=_break_to_json(reader.broken),
        passing=_break_to_json(reader.passing),
    )


def _break_of(fields: Mapping[str, Any], key: str) -> Break | None:
    if key not in fields:
        return None
    found = member(fields, key)
    return Break(whole(found, "snapshot", COUNT), string(found, "why"), optional(string, found, "details") or "")


def _break_to_json(found: Break | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"snapshot": found.snapshot_id, "why": found.reason} | _known(details=found.details or None)


def _known(**values: object | None) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
