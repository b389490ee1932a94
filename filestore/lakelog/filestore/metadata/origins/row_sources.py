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
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, member, objects, optional, parse_object, string, strings, whole
from lakelog.common.quoting import cause
from lakelog.filestore.metadata.origins.row_changes import changes_rows
from lakelog.filestore.metadata.snapshots.users import SOURCES_KEY, CarriedProperties
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX
from lakelog.filestore.schema.paths import MAIN_BRANCH

STATEMENTS = "statements"
STREAM = "stream "  # begins the names of streams
ORIGIN_MARK = "@"  # between a user of a merged branch and the branch's origin
LEFT_MAX = 64  # each commit copies them
ALL_READERS = "*"


class LineKey(NamedTuple):
    """A table or a branch of it, under each name and in each catalog. `branch` is None for the main line."""

    uuid: str
    branch: str | None = None


class ReadVersion(NamedTuple):
    """A snapshot of a source: its number, and the uuid of its commit, None if unknown."""

    snapshot_id: int
    commit: str | None = None


class SourceBreak(NamedTuple):
    """Since which snapshot a source is shown at no version, and why: a value of `lineage.line_state.Reason`."""

    snapshot_id: int
    why: str
    details: str = ""


class WriterName(NamedTuple):
    """The name of a reader: a user and its job, and the `origin` of a merged branch that brought the user."""

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


@dataclass(slots=True, kw_only=True)
class ReaderState:
    """What a reader has read last; `last` None means before the first snapshot.

    `snapshot_id` is the snapshot of the reader's own table which has it, `batch` the identifier of its batch, `since`
    where a stream began: None is unknown. `is_late`: when a merge brought what it has read, the same job had read
    further in the table.
    """

    snapshot_id: int
    last: ReadVersion | None
    batch: int
    since: ReadVersion | None = None
    is_late: bool = False
    job: str | None = None
    broken: SourceBreak | None = None
    passing: SourceBreak | None = None


@dataclass(slots=True)
class RowSource:
    """One source of the rows. `table` is its name, `db.t`."""

    table: str
    readers: dict[str, ReaderState] = field(default_factory=dict)
    broken: SourceBreak | None = None


@dataclass(slots=True)
class RowSources:
    """All sources of the rows of a snapshot. `left` are streams whose rows were removed, as `in_table` names them.

    `unknown`: rows may also come from other sources, and each source is shown at no version.
    """

    sources: dict[LineKey, RowSource] = field(default_factory=dict)
    is_complete: bool = True
    left: set[tuple[LineKey, str]] = field(default_factory=set)
    unknown: SourceBreak | None = None

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
        text = properties.get(SOURCES_KEY)
        if text is None:
            return None
        try:
            fields = parse_object(text)
            return cls(
                sources={source_key_of(one): _source_of(one) for one in objects(fields, "sources")},
                is_complete=fields.get("complete") is not False,
                left={
                    (source_key_of(one), name)
                    for one in (objects(fields, "left") if "left" in fields else ())
                    for name in strings(one, "readers")
                },
                unknown=_break_of(fields, "unknown"),
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(f"snapshot property {SOURCES_KEY} is not readable: {cause(error)}") from error

    def streams(self) -> set[tuple[LineKey, str]]:
        """The streams that have rows in the table."""
        found = ((key, name) for key, source in self.sources.items() for name in source.readers)
        return {(key, name) for key, name in found if name.startswith(STREAM)}

    def leave(self) -> set[tuple[LineKey, str]]:
        """The streams that have left once all rows are removed, as `in_table` names them."""
        return self.left | {(key, in_table(name)) for key, name in self.streams()}

    def has_left(self, key: LineKey, name: str) -> bool:
        """Whether the rows of a stream were removed."""
        return not self.left.isdisjoint({(key, in_table(name)), (key, ALL_READERS)})

    def break_all(self, found: SourceBreak) -> None:
        """From a snapshot on, show all sources that have rows in the table at no version."""
        for source in self.sources.values():
            source.broken = source.broken or found


def carried_sources(carried: CarriedProperties) -> RowSources | None:
    """The sources of the snapshot before: as carried on, and as later snapshots of other engines have changed them."""
    found = RowSources.of(carried.properties)
    for older, newer in pairwise([carried.snapshot, *reversed(carried.foreign)]):
        if found is not None and newer is not None and changes_rows(newer, older):
            found.break_all(SourceBreak(newer.id, "foreign writer", newer.commit_kind.value))
    return found


def in_table(reader: str) -> str:
    """The name that a reader has in the table, without the origin of the merged branch that has brought it."""
    kind, number, user = reader.split(" ", 2)
    return f"{kind} {number} {WriterName(user).own_user()}"


def source_key_of(fields: Mapping[str, Any]) -> LineKey:
    """The line that an entry names."""
    branch = optional(string, fields, "branch")
    return LineKey(str(fields.get("uuid")), None if branch == MAIN_BRANCH else branch)


def read_version(fields: Mapping[str, Any], key: str) -> ReadVersion | None:
    """A member that is a snapshot, None if it is missing. Raises ValueError or KeyError."""
    if key not in fields:
        return None
    version = member(fields, key)
    return ReadVersion(whole(version, "snapshot", COUNT), optional(string, version, "commit"))


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
        last=read_version(fields, "to"),
        batch=whole(fields, "batch"),
        since=read_version(fields, "since"),
        is_late=fields.get("late") is True,
        job=optional(string, fields, "job"),
        broken=_break_of(fields, "broken"),
        passing=_break_of(fields, "passing"),
    )


def _reader_to_json(reader: ReaderState) -> dict[str, object]:
    return {"at": reader.snapshot_id, "batch": reader.batch} | _known(
        to=_version_to_json(reader.last),
        since=_version_to_json(reader.since),
        late=True if reader.is_late else None,
        job=reader.job,
        broken=_break_to_json(reader.broken),
        passing=_break_to_json(reader.passing),
    )


def _version_to_json(version: ReadVersion | None) -> dict[str, object] | None:
    return None if version is None else _known(snapshot=version.snapshot_id, commit=version.commit)


def _break_of(fields: Mapping[str, Any], key: str) -> SourceBreak | None:
    if key not in fields:
        return None
    found = member(fields, key)
    return SourceBreak(whole(found, "snapshot", COUNT), string(found, "why"), optional(string, found, "details") or "")


def _break_to_json(found: SourceBreak | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"snapshot": found.snapshot_id, "why": found.why} | _known(details=found.details or None)


def _known(**values: object | None) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
