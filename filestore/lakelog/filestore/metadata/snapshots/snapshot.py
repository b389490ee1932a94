"""Snapshots: the committed states of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any  # Any: parsed JSON

from lakelog.common.file_names import check_file_names
from lakelog.common.html import html_table
from lakelog.common.json_fields import COUNT, parse_object, string, string_map, whole
from lakelog.common.quoting import cause, shown
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.io.integrity import damaged, has_digest, json_digest

SNAPSHOT_VERSION = 3
BATCH_COMMIT_IDENTIFIER = 9_223_372_036_854_775_807
PROPERTY_PREFIX = "lakelog."
DIGEST_KEY = "lakelog.digest"
SCHEMA_DIGEST_KEY = "lakelog.schema-digest"  # the digest of the schema file of the snapshot
RESTORE_OPERATION = "RESTORE"  # of a snapshot that brings an older state back; its changes are in changelog files
REPLACES_ROWS = frozenset({"OVERWRITE", "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT"})
KEEPS_ROWS = frozenset({"RESCALE", "LOG"})  # operations that rewrite the rows unchanged
MERGE_OPERATION = "MERGE BRANCH"  # of a snapshot that brings the changes of a branch into its table
_OWN_WRITER = "lakelog"
# The fields in the digest: those that every release of Paimon keeps when it writes a snapshot as a tag.
_DIGESTED = (
    "id",
    "schema_id",
    "base_manifest_list",
    "delta_manifest_list",
    "changelog_manifest_list",
    "index_manifest",
    "commit_user",
    "commit_identifier",
    "commit_kind",
    "time_millis",
    "total_record_count",
    "delta_record_count",
    "changelog_record_count",
    "watermark",
    "properties",
)
_FILE_NAMES = (
    "base_manifest_list",
    "delta_manifest_list",
    "changelog_manifest_list",
    "index_manifest",
    "statistics",
)


class BranchVerb(StrEnum):
    """The operation of a commit that brings a whole branch into a logged table."""

    FAST_FORWARD = "FAST FORWARD"
    MERGE = "TAKE BRANCH"
    REPLACE = "REPLACE MAIN"


class CommitKind(StrEnum):
    """What a commit did; the value is the one in the snapshot file."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


IN_MEMORY = "in-memory-"  # begins the list of a state that is in the memory of one handle, see `read.pinning`
OPERATION_KEY = "lakelog.operation"  # a property of one snapshot alone: its operation, if Paimon does not have it
PAIMON_OPERATIONS = frozenset(
    {
        "CREATE_OR_REPLACE_TABLE_AS_SELECT",
        "CREATE_TABLE_AS_SELECT",
        "DELETE",
        "MERGE",
        "OVERWRITE",
        "REPLACE_TABLE_AS_SELECT",
        "TRUNCATE",
        "UPDATE",
        "WRITE",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One committed state of a table, in the file `snapshot/snapshot-<id>`.

    A JSON object whose keys are the attributes in camelCase; None and empty values are left out, unknown keys are
    ignored. The live files are those of the base list, then of the delta list. `commit_identifier` is the micro-batch
    id when a Spark query wrote it. Record counts are raw rows of files. `watermark` None is unknown. `operation` is one
    of PAIMON_OPERATIONS: Paimon cannot read a table with any other. The file has the property `lakelog.digest` too, see
    `lakelog.filestore.io.integrity`. Some procedures of Paimon, such as `compact_manifest` and `rollback_to_as_latest`,
    copy all properties of an older snapshot into a new one. Then its digest is wrong, and the properties of lakelog are
    left out. Source: Paimon spec, "Snapshot".
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    version: int = SNAPSHOT_VERSION
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None

    @property
    def is_in_memory(self) -> bool:
        """Whether this is a state with files that no snapshot names."""
        return self.delta_manifest_list.startswith(IN_MEMORY)

    def __repr__(self) -> str:
        time = shown_millis(self.time_millis)
        return f"Snapshot(id={self.id}, {self.commit_kind.value}, {time}, schema {self.schema_id})"

    def _repr_html_(self) -> str:
        """The snapshot as notebooks show it; no I/O."""
        rows = [
            ("kind", self.commit_kind.value),
            ("time", shown_millis(self.time_millis)),
            ("schema", self.schema_id),
            ("rows in files", self.total_record_count),
            ("rows in files, added by it", self.delta_record_count),
            ("user", self.commit_user),
            ("batch", "-" if self.batch is None else self.batch),
        ]
        return html_table(f"snapshot {self.id}", ("of the snapshot", "value"), rows)

    @property
    def batch(self) -> int | None:
        """The number of the micro-batch that made it; None for a batch write, which has no number."""
        return None if self.commit_identifier == BATCH_COMMIT_IDENTIFIER else self.commit_identifier

    @property
    def operation_name(self) -> str | None:
        """The operation that made the snapshot, including those that Paimon lacks, such as RESCALE; None is unknown."""
        return self.properties.get(OPERATION_KEY, self.operation)

    @property
    def names_lakelog(self) -> bool:
        """Whether it names lakelog as its writer. Tags of older releases of Paimon name no writer."""
        return str(self.writer_version).startswith(_OWN_WRITER)

    @property
    def has_own_properties(self) -> bool:
        """Whether it has properties of lakelog, as all snapshots of lakelog have; those of other engines have none."""
        return any(key.startswith(PROPERTY_PREFIX) for key in self.properties)

    def changes_rows(self, before: Snapshot | None) -> bool:
        """Whether its rows differ from those of the snapshot before it."""
        if self.commit_kind in {CommitKind.COMPACT, CommitKind.ANALYZE} or self.operation_name in KEEPS_ROWS:
            return False
        if self.commit_kind is CommitKind.OVERWRITE or self.delta_record_count:
            return True
        return self.index_manifest != (None if before is None else before.index_manifest)

    def without_own_properties(self) -> Snapshot:
        """The snapshot without the properties of lakelog."""
        kept = {key: text for key, text in self.properties.items() if not key.startswith(PROPERTY_PREFIX)}
        return replace(self, properties=kept)

    @property
    def has_own_changelog(self) -> bool:
        """Whether its changes are in changelog files, if it has any, whatever the changelog producer of the table is.

        This is so for a restore, and for a merge that replaces files with rows that the branch has deleted.
        """
        is_overwrite = self.commit_kind is CommitKind.OVERWRITE
        return self.operation_name == RESTORE_OPERATION or (self.operation_name == MERGE_OPERATION and is_overwrite)

    @property
    def digest(self) -> str:
        """The digest by which readers check that the snapshot's file is unchanged since its commit."""
        values = {name: getattr(self, name) for name in _DIGESTED}
        return json_digest(values | {"properties": dict(self.properties)})

    def to_json(self, **more: object) -> str:
        """The JSON of the snapshot file, or with the keys `more` that of a tag's file."""
        fields: dict[str, object] = {}
        for name, key in _JSON_KEYS.items():
            value = {**self.properties, DIGEST_KEY: self.digest} if name == "properties" else getattr(self, name)
            if value is not None:
                fields[key] = value
        return json.dumps(fields | more, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> Snapshot:
        """Parse the snapshot file at `path`, or that of a tag; ignores keys it does not know.

        Raises CorruptDataError, also when the digest is wrong or is missing in a snapshot of lakelog.
        """
        try:
            given = parse_object(text)
        except ValueError as error:
            raise damaged(path, f"it is not a readable snapshot: {cause(error)}") from error
        return cls.from_fields(given, path=path)

    @classmethod
    def from_fields(cls, given: Mapping[str, Any], *, path: str) -> Snapshot:
        """The snapshot in the parsed file at `path`. Raises as `from_json`."""
        try:
            values = {name: _take(name, given, key) for name, key in _JSON_KEYS.items() if given.get(key) is not None}
            values["commit_kind"] = CommitKind(values["commit_kind"])
            properties = dict(values.get("properties", {}))
            digest = properties.pop(DIGEST_KEY, None)
            check_file_names(values[name] for name in _FILE_NAMES if name in values)
            if not isinstance(values["schema_id"], int):
                raise TypeError(f"its schema is {shown(values['schema_id'])}, expected a number")
            snapshot = cls(**values | {"properties": properties})
            expected = snapshot.digest if digest is not None or snapshot.names_lakelog else None
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path, f"it is not a readable snapshot: {cause(error)}") from error
        if digest == expected:
            return snapshot
        if snapshot.names_lakelog or has_digest(snapshot.delta_manifest_list):
            raise damaged(path, f"it names the digest {shown(digest)}, its fields have {expected}")
        return snapshot.without_own_properties()


_JSON_KEYS = {
    "version": "version",
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_millis": "timeMillis",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
_TAKEN: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = {
    "properties": string_map,
    **dict.fromkeys(("id", "base_manifest_list_size", "delta_manifest_list_size"), partial(whole, allowed=COUNT)),
    **dict.fromkeys(("changelog_manifest_list_size", "schema_id"), partial(whole, allowed=COUNT)),
    **dict.fromkeys(("version", "commit_identifier", "time_millis", "watermark", "next_row_id"), whole),
    **dict.fromkeys(("total_record_count", "delta_record_count", "changelog_record_count"), whole),
}


def _take(name: str, given: Mapping[str, Any], key: str) -> Any:
    take = _TAKEN.get(name)
    return string(given, key) if take is None else take(given, key)


def is_same_commit(one: Snapshot | None, other: Snapshot | None) -> bool:
    """Whether two snapshots, such as those with one id in a table and in its branch, are of the same commit."""
    if one is None or other is None:
        return one is other
    return (one.id, one.uuid, one.base_manifest_list, one.delta_manifest_list) == (
        other.id,
        other.uuid,
        other.base_manifest_list,
        other.delta_manifest_list,
    )
