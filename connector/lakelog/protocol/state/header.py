"""The header `lakelog-commit` of the first record of a transaction, with its batch and its files."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import COUNT, binary, items, member, number_of, optional, parse_object, string, whole
from lakelog.common.quoting import cause, shown
from lakelog.filestore.metadata.manifests import SEQUENCE_MAX, BucketId, DataFileMeta
from lakelog.logstore.errors import SKIP_UNREADABLE

HEADER_VERSION = 1
WRITE_PREFIX = "write-"  # of the names of writes
WRITE_VERSION = 3  # of headers with the parts of a write, which an older lakelog cannot finish; 2 names a header file


class LogMark(StrEnum):
    """What a header record says about the log itself. Source: docs/rfcs/0028-life-of-a-log.md, "Marks"."""

    UNTRACKED = "untracked"  # files of the transaction have rows without records
    BREAK = "break"  # another engine has changed the files
    END = "end"  # the log ends here
    OPEN = "open"  # an earlier end does not count

    @property
    def hides_changes(self) -> bool:
        """Whether readers of the log miss changes of the files."""
        return self in (LogMark.UNTRACKED, LogMark.BREAK)


class LostFilesError(CorruptDataError):
    """The log names missing files of the table: its folder is not the one that the log belongs to."""

    @classmethod
    def of(cls, path: str, *, where: str) -> LostFilesError:
        """The error for a file that the record at `where` names."""
        return cls(
            f"{path} is missing, and the log at {where} names it as a part of a batch that no snapshot holds: the "
            "folder is an older copy (a restored backup), or files were deleted by hand or by another engine's removal "
            f"of orphans, which ignores logs. No snapshot takes it in. {GOES_WITH_ANOTHER_FOLDER}"
        )


def unreadable_header(where: str, error: Exception) -> CorruptDataError:
    """The error for a header, or the name of its file, that lakelog did not write, in a record at `where`."""
    return CorruptDataError(
        f"the commit header at {where} is not readable: {cause(error)}; the topic must only be written by lakelog. "
        f"{SKIP_UNREADABLE}"
    )


GOES_WITH_ANOTHER_FOLDER = (
    "Restore the folder that the log belongs to; or run `lakelog table new-identity PATH`, which keeps the files as "
    "they are, gives the table a new log, and leaves out the records of the older log behind the newest snapshot"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFile:
    """A data file and its partition (serialized BinaryRow); the bucket is that of the transaction."""

    partition: bytes
    meta: DataFileMeta

    def bucket_id(self, number: int) -> BucketId:
        """The bucket of the file, if its transaction is in the bucket with this number."""
        return BucketId(self.partition, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """The changes of a statement in one bucket, in files that no snapshot names yet.

    They were planned, and their rows are numbered, when the bucket's log offset was `offset`. `removed` are files with
    exactly the rows that are taken out of the table. Unless `is_tracked`, the log gets no records but a header.
    """

    offset: int
    files: tuple[BucketFile, ...]
    removed: tuple[BucketFile, ...] = ()
    is_tracked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHeader:
    """Everything that any writer needs to take a transaction into a snapshot.

    JSON keys: v version, table uuid, user, id identifier, digest, schema id, base snapshot id (0 before the first),
    records in the transaction, bytes of their keys and values, files and changelog [[partition base64, file meta]],
    lineage, statement (the name of the prepared commit when a batch statement wrote it, else absent), removed (files as
    above, with the rows that the statement takes out of an append-only table, else absent), watermark (of the batch,
    milliseconds since 1970, absent without one), mark (absent in plain transactions; with one the first record is a
    header record, whose key and value are null), parts ({bucket: part} of a write of `Table.writer`, each as in a
    prepared commit, absent otherwise; v is 3 with them).
    Source: the write-ahead use of the log is lakelog's own.
    """

    table_uuid: str
    user: str
    identifier: int
    source_digest: str | None
    schema_id: int
    base_snapshot_id: int
    record_count: int
    size_bytes: int
    files: tuple[BucketFile, ...]
    changelog: tuple[BucketFile, ...] = ()
    lineage: Mapping[str, object] = field(default_factory=dict)
    statement: str | None = None
    watermark_millis: int | None = None
    removed: tuple[BucketFile, ...] = ()
    mark: LogMark | None = None
    parts: Mapping[int, StagedPart] = field(default_factory=dict)

    @property
    def is_of_batch(self) -> bool:
        """Whether the transaction is a part of a batch of its user, which has or gets a snapshot of its own."""
        return self.mark in (None, LogMark.UNTRACKED)

    @property
    def next_sequence(self) -> int:
        """The sequence number after the last of the files; 0 without files."""
        return max((file.meta.max_sequence_number + 1 for file in self.files), default=0)

    def to_bytes(self) -> bytes:
        """The header's value in a record."""
        fields: dict[str, object] = {
            "v": WRITE_VERSION if self.parts else HEADER_VERSION,
            "table": self.table_uuid,
            "user": self.user,
            "id": self.identifier,
            "digest": self.source_digest,
            "schema": self.schema_id,
            "base": self.base_snapshot_id,
            "records": self.record_count,
            "bytes": self.size_bytes,
            "files": [file_json(file) for file in self.files],
            "changelog": [file_json(file) for file in self.changelog],
            "lineage": dict(self.lineage),
        }
        if self.statement is not None:
            fields["statement"] = self.statement
        if self.watermark_millis is not None:
            fields["watermark"] = self.watermark_millis
        if self.removed:
            fields["removed"] = [file_json(file) for file in self.removed]
        if self.mark is not None:
            fields["mark"] = self.mark.value
        if self.parts:
            fields["parts"] = parts_json(self.parts)
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> CommitHeader:
        """Parse a header; `where` names topic, partition and offset in errors. Raises CorruptDataError."""
        try:
            fields = parse_object(data)
            expected = WRITE_VERSION if "parts" in fields else HEADER_VERSION
            if whole(fields, "v") != expected:
                raise ValueError(f"version {fields['v']}, expected {expected}")
            return cls(
                table_uuid=string(fields, "table"),
                user=string(fields, "user"),
                identifier=whole(fields, "id"),
                source_digest=optional(string, fields, "digest"),
                schema_id=whole(fields, "schema", COUNT),
                base_snapshot_id=whole(fields, "base", COUNT),
                record_count=whole(fields, "records", COUNT),
                size_bytes=whole(fields, "bytes", COUNT),
                files=tuple(parse_file(file) for file in items(fields, "files")),
                changelog=tuple(parse_file(file) for file in items(fields, "changelog")),
                lineage=member(fields, "lineage"),
                statement=_statement_of(fields),
                watermark_millis=optional(whole, fields, "watermark"),
                removed=tuple(parse_file(file) for file in optional(items, fields, "removed") or ()),
                mark=mark_of(fields),
                parts=parse_parts(member(fields, "parts")) if "parts" in fields else {},
            )
        except (KeyError, ValueError) as error:
            raise unreadable_header(where, error) from error


def mark_of(fields: Mapping[str, object]) -> LogMark | None:
    """The mark in the JSON object of a header. Raises ValueError for another value."""
    found = optional(string, fields, "mark")
    return None if found is None else LogMark(found)


def _statement_of(fields: Mapping[str, object]) -> str | None:
    """The name of a batch statement. Raises ValueError for that of a write without its parts, and the reverse."""
    found = optional(string, fields, "statement")
    if (found is not None and found.startswith(WRITE_PREFIX)) != ("parts" in fields):
        raise ValueError(f"the name {shown(found)} and the parts of a write do not go together")
    return found


def file_json(file: BucketFile) -> list[object]:
    """A file as JSON: [partition base64, file meta]."""
    return [base64.b64encode(file.partition).decode(), file.meta.to_json()]


def parse_file(given: object) -> BucketFile:
    """The file of `file_json`. Raises ValueError and KeyError for anything that lakelog does not write."""
    partition, meta = items({"file": given}, "file", length=2)
    parts = {"partition": partition, "meta": meta}
    file = DataFileMeta.from_json(member(parts, "meta"))
    _check_file(file)
    return BucketFile(partition=binary(parts, "partition"), meta=file)


def parts_json(parts: Mapping[int, StagedPart]) -> dict[str, object]:
    """The parts of a statement as JSON: {bucket: part}."""
    return {str(bucket): _part_json(part) for bucket, part in sorted(parts.items())}


def parse_parts(given: Mapping[str, Any]) -> dict[int, StagedPart]:
    """The parts of `parts_json`. Raises ValueError and KeyError."""
    return {number_of(bucket): _parse_part(member(given, bucket)) for bucket in given}


def _part_json(part: StagedPart) -> dict[str, object]:
    fields: dict[str, object] = {"offset": part.offset, "files": [file_json(file) for file in part.files]}
    if part.removed:
        fields["removed"] = [file_json(file) for file in part.removed]
    return fields if part.is_tracked else fields | {"tracked": False}


def _parse_part(fields: Mapping[str, Any]) -> StagedPart:
    return StagedPart(
        offset=whole(fields, "offset", COUNT),
        files=tuple(parse_file(file) for file in items(fields, "files")),
        removed=tuple(parse_file(file) for file in optional(items, fields, "removed") or ()),
        is_tracked=fields.get("tracked") is not False,
    )


def _check_file(meta: DataFileMeta) -> None:
    """Raise ValueError for metadata that no lakelog file has, and for sequence numbers that leave none after them."""
    if meta.external_path is not None:  # lakelog writes none, and a snapshot would make it a file of the table
        raise ValueError(f"file {shown(meta.file_name)} is at {shown(meta.external_path)}, outside of the table")
    counts = (
        meta.file_size_bytes,
        meta.row_count,
        meta.schema_id,
        meta.delete_row_count or 0,
        meta.min_sequence_number,
    )
    if min(counts) < 0:
        raise ValueError(f"file {shown(meta.file_name)} has a negative size, count or number: {counts}")
    if not meta.min_sequence_number <= meta.max_sequence_number < SEQUENCE_MAX:
        raise ValueError(
            f"file {shown(meta.file_name)} has the sequence numbers {meta.min_sequence_number} to "
            f"{meta.max_sequence_number}"
        )
