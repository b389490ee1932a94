"""Commit headers of any size: a header that does not fit into a record is a file of the table, named by the record.

A header describes each file of its bucket, so it grows with the partitions of a batch, and with the keys and values in
the statistics of its files. Its size has no limit, and the first transaction of a batch is logged before the others are
known: a header that the topic refuses would leave the batch half in the log forever. So before a transaction begins, a
large header becomes a file in the table's `manifest` folder, and in its place the record carries

    {"v": 2, "table": <uuid of the table>, "file": "header-<uuid>-0-blake2b-<digest>", "user": <user>,
     "id": <identifier>, "watermark": <milliseconds, where the batch has one>,
     "operation": <of a batch statement>}

If there is room, the name is followed by what readers of the log show of a batch, since the file is deleted some day;
and always by the `mark` of a header that has one and the operation of a statement. The file holds the header as it
would be in the record. It is younger than the data files that it names, the log names it as it names them, and it is an
orphan once a snapshot has taken the transaction in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.common.json_fields import COUNT, member, optional, parse_object, string, whole
from lakelog.filestore.io import read_checked
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import FileNames
from lakelog.logstore.errors import SKIP_UNREADABLE
from lakelog.protocol.state.header import CommitHeader, LogMark, LostFilesError, mark_of, unreadable_header

RECORD_BYTES_MAX = (
    256 << 10
)  # a larger header becomes a file even if it fits: every reader of the topic reads its records
_MARKED_BYTES_MAX = 512
_VERSION = 2
_START = b'{"v":2,'
_NAME = re.compile(r"header-[0-9a-f-]{36}-0-blake2b-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedHeader:
    """What a reader needs of a header with a mark. `user` and `identifier` are None if a file has the header."""

    mark: LogMark
    user: str | None
    identifier: int | None
    lineage: Mapping[str, object]


def marked_header(data: bytes, *, where: str) -> MarkedHeader | None:
    """What a header record says about the log; None without a mark. Opens no file. Raises CorruptDataError."""
    try:
        fields = parse_object(data)
        mark = mark_of(fields)
        if mark is None:
            return None
        is_named = fields.get("v") == _VERSION
        return MarkedHeader(
            mark=mark,
            user=None if is_named else string(fields, "user"),
            identifier=None if is_named else whole(fields, "id"),
            lineage={} if is_named else member(fields, "lineage"),
        )
    except (KeyError, ValueError) as error:
        raise unreadable_header(where, error) from error


def operation_in(data: bytes, *, where: str) -> str | None:
    """The operation of the batch statement that wrote a header or the name of its file; None for a stream's batch.

    Opens no file. Raises CorruptDataError.
    """
    if b'"operation"' not in data:
        return None
    try:
        fields = parse_object(data)
        if fields.get("v") == _VERSION:
            return optional(string, fields, "operation")
        return optional(string, member(fields, "lineage"), "operation") if "statement" in fields else None
    except (KeyError, ValueError) as error:
        raise unreadable_header(where, error) from error


@dataclass(frozen=True, slots=True)
class HeaderFiles:
    """The headers of one table's log."""

    table: TableStore

    def write(self, header: CommitHeader, room_bytes: int) -> bytes:
        """What a record carries, in at most `room_bytes`: the header itself, or the name of a new file with it."""
        whole = header.to_bytes()
        if len(whole) <= min(room_bytes, RECORD_BYTES_MAX):
            return whole
        name = FileNames().header(whole)
        if not self.table.file_io.create_new(self.table.paths.manifest(name), whole):
            raise ConflictError(f"{self.table.paths.manifest(name)} already exists, although its name is new")
        fields = {"v": _VERSION, "table": header.table_uuid, "file": name}
        if header.mark is not None:
            fields["mark"] = header.mark.value
        if header.statement is not None and "operation" in header.lineage:
            fields["operation"] = str(header.lineage["operation"])
        mark = BatchMark(user=header.user, identifier=header.identifier, watermark_millis=header.watermark_millis)
        marked = json.dumps(fields | mark.to_json(), separators=(",", ":")).encode()
        if len(marked) <= min(room_bytes, _MARKED_BYTES_MAX):
            return marked
        return json.dumps(fields, separators=(",", ":")).encode()

    def read_mark(self, data: bytes, *, where: str) -> BatchMark | None:
        """The batch of a header; None for a header in a file that was deleted. Raises CorruptDataError."""
        mark = BatchMark.from_bytes(data, where=where)
        if mark is not None:
            return mark
        try:
            header = self.read(data, where=where)
        except LostFilesError:
            return None
        return BatchMark(user=header.user, identifier=header.identifier, watermark_millis=header.watermark_millis)

    def read(self, data: bytes, *, where: str) -> CommitHeader:
        """The header that a record carries or names; `where` is the record. Raises CorruptDataError."""
        name = self.name_of(data, where=where)
        if name is None:
            return CommitHeader.from_bytes(data, where=where)
        path = self.table.paths.manifest(name)
        try:
            found = read_checked(self.table.file_io, path)
        except NotFoundError as error:
            raise LostFilesError.of(path, where=where) from error
        return CommitHeader.from_bytes(found, where=f"{where}, in {path}")

    def record_count(self, data: bytes, *, where: str) -> int:
        """The number of records of a header's transaction; of the rest nothing is read. Raises CorruptDataError."""
        if data.startswith(_START):
            return self.read(data, where=where).record_count
        try:
            return whole(parse_object(data), "records", COUNT)
        except (KeyError, ValueError) as error:
            raise unreadable_header(where, error) from error

    def name_of(self, data: bytes, *, where: str) -> str | None:
        """The file that a record names as its header; None when it carries the header itself.

        Raises CorruptDataError for a header of another table, and for other names.
        """
        if not data.startswith(_START):
            return None
        try:
            fields = json.loads(data)
            table_uuid, name = fields["table"], fields["file"]
            if not (isinstance(name, str) and _NAME.fullmatch(name)):
                raise ValueError("'file' is not the name of a header file")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise unreadable_header(where, error) from error
        if table_uuid != self.table.uuid:
            raise CorruptDataError(
                f"the log at {where} was written for another table than {self.table.uuid}: a topic serves one table; "
                f"give a copied table a log of its own, or: {SKIP_UNREADABLE}"
            )
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMark:
    """A batch: the user and identifier of its commit, and its watermark in milliseconds since 1970, None without one.

    JSON keys, in a header and in the record that names a header file: user, id, watermark (absent without one).
    """

    user: str
    identifier: int
    watermark_millis: int | None = None

    def to_json(self) -> dict[str, object]:
        """The members."""
        fields: dict[str, object] = {"user": self.user, "id": self.identifier}
        if self.watermark_millis is not None:
            fields["watermark"] = self.watermark_millis
        return fields

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str) -> BatchMark | None:
        """The batch in what a record carries; None if the record only names a file. Raises CorruptDataError."""
        try:
            fields = parse_object(data)
            if "user" not in fields and "file" in fields:
                return None
            return cls(
                user=string(fields, "user"),
                identifier=whole(fields, "id"),
                watermark_millis=optional(whole, fields, "watermark"),
            )
        except (KeyError, ValueError) as error:
            raise unreadable_header(where, error) from error
