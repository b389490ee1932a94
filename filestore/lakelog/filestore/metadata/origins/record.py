"""Where the rows of a batch come from, as its commit records it: the snapshot property `lakelog.lineage`.

    {"batches": [{"user", "identifier", "job", "query", "run", "batch", "operation", "sources": [source, ...],
                  "fields": [checksum, ...]}, ...]}

The same entry, without `user` and `identifier`, is in the header of each record of the log that starts a part of the
batch: a writer that takes the batch in keeps it. A source is one of the following:

    {"kind": "table", "table": "db.t", "uuid", "path", "branch", "mode": "stream" | "batch",
     "from": {"snapshot", "commit"}, "to": {"snapshot", "commit"}, "exact": boolean,
     "log": {"topic", "from": {bucket: offset}, "to": {bucket: offset}}, "why"}
    {"kind": "foreign", "format": "kafka", "name", "from", "to"}      offsets or versions in that source's notation
    {"kind": "unknown", "why"}

`fields` are the documents with the lineage of the fields, by their checksums: see
`lakelog.lineage.columns.field_documents`. A batch that was planned again for a part of its rows may have several.

`to` is the newest snapshot that the batch and those before it have read completely, `from` is the `to` of the previous
batch. `exact` says that they have read nothing after `to`. A member that is not known is left out, and `why` says why.

The merge of a branch has the branch as a source, from the state since which changes are taken (for a whole branch, the
state at which it began) to the snapshot that is taken. What the branch's batches have read in between is in "brought",
with entries like those of a snapshot: {"user", "identifier", "job", "batch", "sources"}.

Older versions of lakelog wrote a source of a stream as {"table", "uuid", "start", "end"}: two offsets of the
checkpoint, from which `consumed` and `commit` are taken, and no `job`, `query`, `run` and `batch`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, member, number_of, objects, optional, string, strings, whole
from lakelog.common.quoting import cut
from lakelog.filestore.metadata.snapshots.operations import batch_entries, unreadable_record
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.schema.paths import MAIN_BRANCH

_CHECKSUM = re.compile("[0-9a-f]{64}")
TEXT_MAX = 8 << 10  # characters of a foreign source's offsets: each commit reads a snapshot's properties


class LineKey(NamedTuple):
    """A table or a branch of it, under each name and in each catalog. `branch` is None for the main line."""

    uuid: str
    branch: str | None = None


class ReadMode(StrEnum):
    """How a batch reads a table: as a stream, from snapshot to snapshot, or one state of it."""

    STREAM = "stream"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A snapshot by its number and the uuid of the commit that made it: numbers are reused after a rollback.

    `commit` None means unknown, as for snapshots of other engines.
    """

    snapshot_id: int
    commit: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {"snapshot": self.snapshot_id} | ({} if self.commit is None else {"commit": self.commit})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableVersion:
        """Parse it. Raises ValueError or KeyError."""
        return cls(snapshot_id=whole(fields, "snapshot", COUNT), commit=optional(string, fields, "commit"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The records of a log that a batch has read: per bucket, from the first offset to the second, exclusive."""

    topic_id: str
    start: Mapping[int, int] = field(default_factory=dict)
    end: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {"topic": self.topic_id, "from": _offsets_to_json(self.start), "to": _offsets_to_json(self.end)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> LogRange:
        """Parse it. Raises ValueError or KeyError."""
        return cls(topic_id=string(fields, "topic"), start=_offsets_of(fields, "from"), end=_offsets_of(fields, "to"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A lakelog or Paimon table that a batch reads.

    `start` is None for the first batch of a stream and for a batch read; `end` is None if no snapshot was read
    completely yet, or if it is unknown: then `why` says so. `branch` is None for the main line.
    """

    table: str
    uuid: str
    path: str | None = None
    branch: str | None = None
    mode: ReadMode
    start: TableVersion | None = None
    end: TableVersion | None = None
    is_exact: bool = False
    log: LogRange | None = None
    why: str | None = None

    @property
    def line(self) -> LineKey:
        """The key of the table or branch."""
        return _line(self.uuid, self.branch)

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        named = {"kind": "table", "table": self.table, "uuid": self.uuid}
        known = {
            "path": self.path,
            "branch": self.branch,
            "mode": self.mode.value,
            "from": None if self.start is None else self.start.to_json(),
            "to": None if self.end is None else self.end.to_json(),
            "exact": self.is_exact,
            "log": None if self.log is None else self.log.to_json(),
            "why": self.why,
        }
        return named | {key: value for key, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableSource:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            table=string(fields, "table"),
            uuid=string(fields, "uuid"),
            path=optional(string, fields, "path"),
            branch=optional(string, fields, "branch"),
            mode=ReadMode(string(fields, "mode")),
            start=version_in(fields, "from"),
            end=version_in(fields, "to"),
            is_exact=fields.get("exact") is True,
            log=LogRange.from_json(member(fields, "log")) if "log" in fields else None,
            why=optional(string, fields, "why"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSource:
    """A source of another kind. `start` and `end` are its offsets or versions, in its own form, cut to `TEXT_MAX`."""

    format: str
    name: str | None = None
    start: str | None = None
    end: str | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        known = {"name": self.name, "from": self.start, "to": self.end}
        texts = {key: cut(text, TEXT_MAX) for key, text in known.items() if text is not None}
        return {"kind": "foreign", "format": self.format, **texts}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ForeignSource:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            format=string(fields, "format"),
            name=optional(string, fields, "name"),
            start=optional(string, fields, "from"),
            end=optional(string, fields, "to"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownSource:
    """What a batch reads is not known, for this reason."""

    why: str

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {"kind": "unknown", "why": self.why}


Source = TableSource | ForeignSource | UnknownSource


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLineage:
    """The job of a batch and what the batch has read.

    `job` is the given name, else the query's name, else its id. `batch_id` is Spark's number of the micro-batch, None
    for a batch write, whose `operation` is its verb. `fields` are checksums of the lineage of its fields. `brought` is
    what the batches of a merged branch have read.
    """

    job: str | None = None
    query_id: str | None = None
    run_id: str | None = None
    batch_id: int | None = None
    operation: str | None = None
    sources: Sequence[Source] = ()
    fields: Sequence[str] = ()
    brought: Sequence[CommittedBatch] = ()

    def to_json(self) -> dict[str, object]:
        """The JSON object of the header; the snapshot's has `user` and `identifier` too."""
        known: dict[str, object | None] = {
            "job": self.job,
            "query": self.query_id,
            "run": self.run_id,
            "batch": self.batch_id,
            "operation": self.operation,
        }
        named = {key: value for key, value in known.items() if value is not None}
        fields = {"fields": list(self.fields)} if self.fields else {}
        brought = {"brought": [one.to_json() for one in self.brought]} if self.brought else {}
        return named | {"sources": [source.to_json() for source in self.sources]} | fields | brought

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> BatchLineage:
        """Parse it. Raises ValueError or KeyError."""
        return cls(
            job=optional(string, fields, "job"),
            query_id=optional(string, fields, "query"),
            run_id=optional(string, fields, "run"),
            batch_id=whole(fields, "batch", COUNT) if "batch" in fields else None,
            operation=optional(string, fields, "operation"),
            sources=tuple(map(_source_of, objects(fields, "sources"))) if "sources" in fields else (),
            fields=tuple(map(check_checksum, strings(fields, "fields"))) if "fields" in fields else (),
            brought=tuple(map(_brought_of, objects(fields, "brought"))) if "brought" in fields else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A whole batch, or a part of one, that a snapshot took in: its user, its identifier, its lineage."""

    user: str
    identifier: int
    lineage: BatchLineage

    def to_json(self) -> dict[str, object]:
        """The JSON object."""
        return {"user": self.user, "identifier": self.identifier, **self.lineage.to_json()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CommittedBatch:
        """Parse it. Raises ValueError or KeyError."""
        user, identifier = string(fields, "user"), whole(fields, "identifier")
        return cls(user=user, identifier=identifier, lineage=BatchLineage.from_json(fields))


def batches_of(snapshot: Snapshot) -> tuple[CommittedBatch, ...]:
    """The batches that a snapshot records; none for a snapshot of other engines. Raises CorruptDataError."""
    try:
        return tuple(map(CommittedBatch.from_json, batch_entries(snapshot)))
    except (KeyError, ValueError) as error:
        raise unreadable_record(snapshot, error) from error


def readable_batches(snapshot: Snapshot) -> tuple[CommittedBatch, ...]:
    """The batches that a snapshot records; if its record is not readable, its own batch, with the reason."""
    try:
        return batches_of(snapshot)
    except CorruptDataError as error:
        lineage = BatchLineage(sources=(UnknownSource(why=str(error)),))
        return (CommittedBatch(user=snapshot.commit_user, identifier=snapshot.commit_identifier, lineage=lineage),)


def check_checksum(text: str) -> str:
    """The checksum of a document. Raises ValueError for a text that is none: a checksum is the name of a file."""
    if not _CHECKSUM.fullmatch(text):
        raise ValueError(f"{cut(text)!r} is no checksum of a lineage of fields")
    return text


def _brought_of(fields: Mapping[str, Any]) -> CommittedBatch:
    """A batch of a merged branch, which itself has no "brought"."""
    return CommittedBatch.from_json({key: value for key, value in fields.items() if key != "brought"})


def _source_of(fields: Mapping[str, Any]) -> Source:
    if "kind" not in fields and "end" in fields:
        return _older_source_of(fields)
    match string(fields, "kind"):
        case "table":
            return TableSource.from_json(fields)
        case "foreign":
            return ForeignSource.from_json(fields)
        case "unknown":
            return UnknownSource(why=string(fields, "why"))
        case kind:  # from a newer version of lakelog
            return UnknownSource(why=f"a source of kind {cut(kind)}, which this version of lakelog does not know")


def _older_source_of(fields: Mapping[str, Any]) -> TableSource:
    end = member(fields, "end")
    start = member(fields, "start") if fields.get("start") is not None else {}
    is_followed = "consumed" in end and "log" not in end
    return TableSource(
        table=optional(string, fields, "table") or "",
        uuid=optional(string, fields, "uuid") or "",
        mode=ReadMode.STREAM,
        start=_consumed_of(start),
        end=_consumed_of(end),
        is_exact=is_followed,
        why=None if is_followed else "an older version of lakelog wrote it, and did not say how far the log is read",
    )


def _consumed_of(offset: Mapping[str, Any]) -> TableVersion | None:
    if not offset.get("consumed"):
        return None
    consumed = whole(offset, "consumed", COUNT)
    return TableVersion(snapshot_id=consumed, commit=optional(string, offset, "commit"))


def line_of(fields: Mapping[str, Any]) -> LineKey:
    """The line that an entry names."""
    return _line(str(fields.get("uuid")), optional(string, fields, "branch"))


def _line(uuid: str, branch: str | None) -> LineKey:
    return LineKey(uuid, None if branch == MAIN_BRANCH else branch)


def version_in(fields: Mapping[str, Any], key: str) -> TableVersion | None:
    """A member that is a snapshot, None if it is missing. Raises ValueError or KeyError."""
    return TableVersion.from_json(member(fields, key)) if key in fields else None


def _offsets_to_json(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(bucket): offset for bucket, offset in sorted(offsets.items())}


def _offsets_of(fields: Mapping[str, Any], key: str) -> dict[int, int]:
    offsets = member(fields, key)
    return {number_of(bucket, COUNT): whole(offsets, bucket, COUNT) for bucket in offsets}
