"""Prepared commits: what a batch statement will do to a logged table, in one file before any of it is logged.

The file `lakelog/statements/<name>` of the table is JSON; its name ends with the digest of its bytes:

    {"v": 1, "table": uuid of the table, "topic": topic id, "user": user, "operation": such as "DELETE",
     "schema": schema id, "base": id of the snapshot that it was planned on, 0 before the first, "time": epoch ms,
     "rows": number of changes, "lineage": object,
     "properties": {key: value} that its snapshot gets, absent without any,
     "buckets": {bucket: {"offset": log offset, "files": [[partition base64, file meta]],
                 "removed": files with rows that are taken out, absent without any,
                 "tracked": false if the log has no records of them, else absent}}}

`<name>.cancelled` beside it is the mark of a statement that is being cancelled. The prepared commit is deleted before
its mark: a deleted one is not logged by any process, a marked one not by its own driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.common.json_fields import (
    COUNT,
    member,
    optional,
    parse_object,
    string,
    string_map,
    whole,
)
from lakelog.common.quoting import cause, shown
from lakelog.filestore.io import digest_of, name_with_digest
from lakelog.filestore.metadata.snapshots import BATCH_COMMIT_IDENTIFIER, CommitUser
from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.state.header import StagedPart, parse_parts, parts_json
from lakelog.protocol.state.state import Batch

USER_PREFIX = "statement-"
ADDED_USERS_KEY = "lakelog.added-users"  # a property by which a statement adds users to its snapshot; it is not stored
_VERSION = 1
_MARK_SUFFIX = ".cancelled"
_WAY_OUT = (
    "restore the file from a copy, or delete it: then the statement is cancelled. Where a bucket of it is logged, "
    "writers say so then, and `lakelog log renew TABLE --skip-unreadable` leaves it out"
)
_NAME = re.compile(r"(statement-[0-9a-f-]{36})-blake2b-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """A batch statement that is ready to be logged. See the module for its JSON keys."""

    table_uuid: str
    topic_id: str
    user: str
    operation: str
    schema_id: int
    base_snapshot_id: int
    time_millis: int
    row_count: int
    parts: Mapping[int, StagedPart]
    lineage: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    identifier: int = BATCH_COMMIT_IDENTIFIER
    source_digest: str | None = None

    @property
    def batch(self) -> Batch:
        """The identity of the statement in the table's history."""
        return Batch(
            user=self.user,
            identifier=self.identifier,
            source_digest=self.source_digest,
            lineage=dict(self.lineage),
        )

    @property
    def file_names(self) -> set[str]:
        """The names of all files that it lists."""
        listed = [file.meta for part in self.parts.values() for file in (*part.files, *part.removed)]
        return {name for meta in listed for name in (meta.file_name, *meta.extra_files)}

    def to_bytes(self) -> bytes:
        """The bytes of its file."""
        fields = {
            "v": _VERSION,
            "table": self.table_uuid,
            "topic": self.topic_id,
            "user": self.user,
            "operation": self.operation,
            "schema": self.schema_id,
            "base": self.base_snapshot_id,
            "time": self.time_millis,
            "rows": self.row_count,
            "lineage": dict(self.lineage),
            "buckets": parts_json(self.parts),
        }
        if self.properties:
            fields["properties"] = dict(self.properties)
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str) -> PreparedCommit:
        """Parse the file at `path`. Raises CorruptDataError."""
        try:
            fields = parse_object(data)
            if whole(fields, "v") != _VERSION:
                raise ValueError(f"version {fields['v']}, expected {_VERSION}")
            return cls(
                table_uuid=string(fields, "table"),
                topic_id=string(fields, "topic"),
                user=string(fields, "user"),
                operation=string(fields, "operation"),
                schema_id=whole(fields, "schema", COUNT),
                base_snapshot_id=whole(fields, "base", COUNT),
                time_millis=whole(fields, "time"),
                row_count=whole(fields, "rows", COUNT),
                parts=parse_parts(member(fields, "buckets")),
                lineage=member(fields, "lineage"),
                properties=optional(string_map, fields, "properties") or {},
            )
        except (KeyError, ValueError) as error:
            raise CorruptDataError(f"the prepared commit {path} is not readable: {cause(error)}; {_WAY_OUT}") from error


def prepared_names(names: Iterable[str]) -> list[str]:
    """The names of prepared commits among those in their folder, in order."""
    return sorted(name for name in names if _NAME.fullmatch(name))


def user_of(name: str) -> str:
    """The user of the statement whose prepared commit has this name. Raises CorruptDataError for other names.

    A name may come from a header in the log: a name that passes is not a path.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise CorruptDataError(f"{shown(name)} is not the name of a prepared commit: only lakelog may write the topic")
    return found[1]


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """The prepared commits in a table's folder."""

    table: TableStore

    @property
    def folder(self) -> str:
        """The folder of the prepared commits."""
        return f"{self.table.paths.own_root}/lakelog/statements"

    def names(self) -> list[str]:
        """The names of all prepared commits, in the same order in every process. One listing."""
        return prepared_names(self.table.file_io.list_names(self.folder))

    def read(self, name: str) -> PreparedCommit:
        """The prepared commit. Raises NotFoundError for a deleted one, CorruptDataError."""
        user = user_of(name)
        path = f"{self.folder}/{name}"
        data = self.table.file_io.read_bytes(path)
        if not name.endswith(digest_of(data)):
            raise CorruptDataError(
                f"the prepared commit {path} is damaged: the digest of its bytes is {digest_of(data)}, but its name "
                f"has another one; {_WAY_OUT}"
            )
        found = PreparedCommit.from_bytes(data, path=path)
        if found.user != user:
            raise CorruptDataError(f"the prepared commit {path} is of the user {shown(found.user)}; {_WAY_OUT}")
        return found

    def problem_of(self, name: str) -> str | None:
        """Why no process can finish a statement that is in the log; None if its prepared commit is valid."""
        try:
            self.check_buckets(self.read(name).parts)
        except NotFoundError:
            return f"the prepared commit {self.folder}/{name}, which they belong to, is missing"
        except CorruptDataError as error:
            return str(error)
        return None

    def problems(self, *, topic_id: str) -> list[str]:
        """For each prepared commit that writers cannot finish or cancel, why they refuse to continue."""
        found = []
        for name in self.names():
            try:
                prepared = self.read(name)
                if not self.is_foreign(prepared, topic_id=topic_id):
                    self.check_buckets(prepared.parts)
            except NotFoundError:  # finished or cancelled meanwhile
                continue
            except CorruptDataError as error:
                found.append(str(error))
        return found

    def check_buckets(self, buckets: Collection[int]) -> None:
        """Raise CorruptDataError for buckets that the table lacks: no log answers for them, however long one waits.

        It names the first prepared commit that lists one.
        """
        count = self.table.bucket_count
        lacking = {bucket for bucket in buckets if not 0 <= bucket < count}
        if not lacking:
            return
        naming = next((name for name in self.names() if not lacking.isdisjoint(self._buckets_of(name))), None)
        named = f"a statement of table {self.table.name}" if naming is None else f"{self.folder}/{naming}"
        raise CorruptDataError(
            f"{named} names the bucket {min(lacking)}, and table {self.table.name} has {count}, from 0 on: no "
            "statement of this table wrote it, and nothing of it is in the log of that bucket; restore the file from a "
            "copy, or delete it"
        )

    def _buckets_of(self, name: str) -> Collection[int]:
        try:
            return self.read(name).parts.keys()
        except NotFoundError:
            return ()

    def write(self, prepared: PreparedCommit) -> str:
        """Create the file of a prepared commit; returns its name. Raises ValueError if it is too large."""
        data = prepared.to_bytes()
        name = name_with_digest(prepared.user, data)
        parse_object(data)  # what cannot be read again would be lost
        if not self.table.file_io.create_new(f"{self.folder}/{name}", data):
            raise ConflictError(f"{self.folder}/{name} already exists, although its name is new")
        return name

    def mark_cancelled(self, name: str) -> None:
        """Mark a statement as cancelled: from now on its own driver logs nothing more."""
        self.table.file_io.write_bytes(f"{self.folder}/{name}{_MARK_SUFFIX}", b"")

    def is_marked(self, name: str) -> bool:
        """Whether a statement is being cancelled."""
        return self.table.file_io.exists(f"{self.folder}/{name}{_MARK_SUFFIX}")

    def exists(self, name: str) -> bool:
        """Whether the prepared commit still exists."""
        return self.table.file_io.exists(f"{self.folder}/{name}")

    def delete(self, name: str) -> None:
        """Delete the prepared commit, then its mark; missing ones are fine."""
        for path in (f"{self.folder}/{name}", f"{self.folder}/{name}{_MARK_SUFFIX}"):
            self.table.file_io.delete(path)

    def is_foreign(self, prepared: PreparedCommit, *, topic_id: str) -> bool:
        """Whether it belongs to another identity of the table, whose log is no longer written."""
        return prepared.table_uuid != self.table.uuid or prepared.topic_id != topic_id


def names_of(table: TableStore) -> set[str]:
    """The names of all files that prepared commits list; a commit that is deleted meanwhile is left out."""
    commits = PreparedCommits(table)
    found: set[str] = set()
    for name in commits.names():
        try:
            found |= commits.read(name).file_names
        except NotFoundError:
            continue
    return found


def without_ended_statements(
    users: Mapping[str, CommitUser], *, own: str, held: Callable[[], Collection[str]]
) -> tuple[dict[str, CommitUser], set[str]]:
    """The users without statements that have ended, and the statements that have not. `own` is committing, and stays.

    `held` gives the users whose prepared commits exist: a process that finds one later would take the statement for
    unfinished. It is called only if there is another statement than `own`.
    """
    others = {user for user in users if user.startswith(USER_PREFIX) and user != own}
    staying = others & set(held()) if others else set()
    return {user: last for user, last in users.items() if user not in others or user in staying}, staying
