"""Creates a branch: from a snapshot, living or tagged, or an empty one.

Only metadata are copied: manifests and data files are shared. The steps: the file of the step, the protecting tag in
the table, then the branch's fork file, tags, snapshot and schemas, and the end of the step.

A branch begins without the log of its table: if the table has a log, the branch gets another schema without the options
of the log, and its copy of the fork snapshot lacks the state of the log. Users are kept: a writer whose batches are in
the fork snapshot continues with its next batch.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError
from lakelog.common.file_names import check_file_names
from lakelog.common.json_fields import INT, items, member, optional, string, string_map, whole
from lakelog.common.log_system import LOG_OPTION_PREFIXES, has_log
from lakelog.common.quoting import cause
from lakelog.filestore.io.integrity import text_of
from lakelog.filestore.metadata.origins.restored import forked_sources
from lakelog.filestore.metadata.origins.unseen_changes import carried_unseen
from lakelog.filestore.metadata.snapshots.snapshot import (
    DIGEST_KEY,
    OPERATION_KEY,
    PROPERTY_PREFIX,
    SCHEMA_DIGEST_KEY,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.metadata.snapshots.users import MERGED_PREFIX, CarriedProperties, PropertyKey, carried_properties
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX, Fork
from lakelog.filestore.metadata.tables.identity import carried_anyhow, carried_by, check_same_table
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import LOG_BRANCH
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.branches.branch_removing import delete_step, finish_delete
from lakelog.filestore.refs.branches.branch_steps import (
    ACTION,
    CREATE,
    begin_step,
    check_is_main,
    check_place,
    end_step,
)
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager

_CARRIED = {
    PropertyKey.USERS,
    PropertyKey.FORGOTTEN,
    PropertyKey.UUID,
    SCHEMA_DIGEST_KEY,
    PropertyKey.SOURCES,
    PropertyKey.UNSEEN,
    PropertyKey.CLEARED,
}
# What the snapshot itself did is kept in the branch, which may outlive the snapshot in the table.
_OF_ONE_SNAPSHOT = {
    PropertyKey.LINEAGE,
    OPERATION_KEY,
    PropertyKey.RESTORES,
    PropertyKey.REPLACES,
    PropertyKey.BASE,
    PropertyKey.MENDED,
}
_KEPT = frozenset(_CARRIED | _OF_ONE_SNAPSHOT)  # the others are of a log


def plan_branch(
    table: TableStore,
    snapshot: Snapshot | None,
    *,
    tag: str | None,
    created_millis: int,
    retained_millis: int | None,
) -> dict[str, object]:
    """The step that creates a branch from a snapshot, which may be tagged; None is an empty branch."""
    check_is_main(table, "made")
    check_same_table(table, None)
    schema = _schema_at(table, snapshot)
    fork = Fork(
        branch_id=str(uuid.uuid4()),
        created_millis=created_millis,
        snapshot_id=None if snapshot is None else snapshot.id,
        commit_uuid=None if snapshot is None else snapshot.uuid,
        protecting_tag=None if snapshot is None else f"{PROTECTING_PREFIX}{snapshot.id}-{uuid.uuid4().hex[:8]}",
        tag=None if snapshot is None else tag,
        retained_millis=retained_millis,
    )
    step: dict[str, object] = {
        ACTION: CREATE,
        "fork": fork.to_fields(),
        "schemas": [number for number in table.schemas.list_ids() if number <= schema.id],
    }
    if has_log(schema.options):
        step["options"] = _without_log(schema, table_name=table.name)
        step["timeMillis"] = created_millis
    if snapshot is not None:
        step["tags"] = _tag_texts(table, snapshot, fork)
        step["snapshot"] = _without_changelog(of_branch(table, snapshot)).to_json()
        step["protected"] = snapshot.to_json()
    return step


def create_branch(table: TableStore, name: str, step: Mapping[str, object]) -> None:
    """Create a branch by its step. Raises ConflictError for a name that is taken."""
    check_branch_name(name)
    check_place(table, name)
    if SchemaManager(table.file_io, TablePaths(table.path, name)).list_ids():
        raise ConflictError(f"table {table.name} has a branch {name!r} already: choose another name, or delete it")
    begin_step(table, name, step)
    try:
        finish_create(table, name, step)
    except NotFoundError:  # the snapshot has expired meanwhile
        finish_delete(table, name, delete_step(None))
        raise


def finish_create(table: TableStore, name: str, step: Mapping[str, Any]) -> None:
    """Finish a step that was cut off. Raises CorruptDataError, NotFoundError."""
    paths, file_io = TablePaths(table.path, name), table.file_io
    schemas = SchemaManager(file_io, paths)
    plan = _parsed(step, path=paths.branch_step)
    fork = plan.fork
    if fork.protecting_tag is not None and plan.protected is not None:
        _protect(table, fork.protecting_tag, plan.protected)
    file_io.create_new(paths.fork_file, fork.to_json())
    for tag, text in plan.tags.items():
        file_io.create_new(paths.tag(tag), text.encode())
    if plan.snapshot is not None and fork.snapshot_id is not None:
        file_io.create_new(paths.snapshot(fork.snapshot_id), plan.snapshot.to_json().encode())
        manager = SnapshotManager(file_io, paths)
        if manager.latest_id() == fork.snapshot_id:
            manager.write_latest_hint(fork.snapshot_id)
            manager.write_earliest_hint(fork.snapshot_id)
    for number in plan.schemas:
        file_io.create_new(paths.schema(number), file_io.read_bytes(table.paths.schema(number)))
    newest_id = plan.schemas[-1]
    if plan.options is not None and newest_id + 1 not in schemas.list_ids():
        newest = schemas.get(newest_id)
        _create_schema(schemas, replace(newest, id=newest.id + 1, options=plan.options, time_millis=plan.time_millis))
    end_step(table, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A parsed step: the fork, the table's schemas to copy, and the branch's snapshot, tags and options.

    `protected` is the snapshot that the protecting tag of the table keeps.
    """

    fork: Fork
    schemas: tuple[int, ...]
    snapshot: Snapshot | None
    protected: Snapshot | None
    tags: Mapping[str, str]
    options: Mapping[str, str] | None
    time_millis: int


def _parsed(step: Mapping[str, Any], *, path: str) -> _Plan:
    """Raises CorruptDataError."""
    try:
        fork = Fork.of_fields(dict(member(step, "fork")))
        ids = tuple(whole({"id": number}, "id", INT) for number in items(step, "schemas"))
        if not ids:
            raise ValueError("it names no schema")
        texts = {key: optional(string, step, key) for key in ("snapshot", "protected")}
        tags = string_map(step, "tags") if "tags" in step else {}
        check_file_names(tags)
        options = string_map(step, "options") if "options" in step else None
        time_millis = 0 if options is None else whole(step, "timeMillis")
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{path} is not the step of a branch: {cause(error)}; delete the file, then the branch"
        ) from error
    found = [None if text is None else _snapshot_in(text, fork, path=path) for text in texts.values()]
    return _Plan(
        fork=fork,
        schemas=ids,
        snapshot=found[0],
        protected=found[1],
        tags=tags,
        options=options,
        time_millis=time_millis,
    )


def _snapshot_in(text: str, fork: Fork, *, path: str) -> Snapshot:
    """A snapshot in the step at `path`. Raises CorruptDataError, also for a snapshot other than that of the fork."""
    try:
        found = Snapshot.from_json(text, path=path)
    except CorruptDataError as error:
        raise CorruptDataError(f"{error}. It is the step of a branch: delete the file, then the branch") from error
    if found.id != fork.snapshot_id:
        raise CorruptDataError(
            f"{path} is not the step of a branch: it holds snapshot {found.id}, expected {fork.snapshot_id}; delete "
            "the file, then the branch"
        )
    return found


def _protect(table: TableStore, tag: str, snapshot: Snapshot) -> None:
    """Keep the fork snapshot in the table. Raises NotFoundError if it has expired since."""
    if not table.file_io.exists(table.paths.tag(tag)):
        with contextlib.suppress(ConflictError):  # another call has finished the step meanwhile
            write_tag(table, tag, snapshot)


def of_branch(table: TableStore, snapshot: Snapshot) -> Snapshot:
    """A snapshot of the table as a branch has it: with its users, without the state of the table's log.

    The same snapshot if it has neither. Raises NotFoundError if the state has expired.
    """
    try:
        found = carried_by(table, snapshot)
    except NotFoundError:  # of another engine, whose state has expired
        found = carried_properties(snapshot, table.snapshots)
    now = {} if found.properties else carried_anyhow(table, table.snapshots.latest()).properties
    return with_properties_of_branch(snapshot, found, now)


def with_properties_of_branch(snapshot: Snapshot, found: CarriedProperties, now: Mapping[str, str]) -> Snapshot:
    """A snapshot of the table as a branch has it; `found` and `now` are what commits would carry on."""
    carried = {**found.properties, **forked_sources(found, now), **carried_unseen(found)}
    own = {**carried, **snapshot.properties}
    kept = {key: text for key, text in own.items() if not key.startswith(PROPERTY_PREFIX) or _is_kept(key, text)}
    return snapshot if kept == snapshot.properties else replace(snapshot, properties=kept)


def _is_kept(key: str, text: str) -> bool:
    """Whether a branch keeps a property of its table. It keeps merges, as it may become the table."""
    return key in _KEPT or (key.startswith(MERGED_PREFIX) and bool(text))


def _without_changelog(snapshot: Snapshot) -> Snapshot:
    """A tag keeps no changelog, so that of the fork may have expired: the changes of a branch begin after the fork."""
    return replace(
        snapshot, changelog_manifest_list=None, changelog_manifest_list_size=None, changelog_record_count=None
    )


def _schema_at(table: TableStore, snapshot: Snapshot | None) -> TableSchema:
    """The newest schema for an empty branch or one from the newest snapshot, otherwise the schema of the snapshot."""
    newest = table.schemas.latest() or table.schema
    if snapshot is None or snapshot.id == table.snapshots.latest_id():
        return newest
    return table.schemas.get_beside(snapshot.schema_id, newest)


def _tag_texts(table: TableStore, snapshot: Snapshot, fork: Fork) -> dict[str, str]:
    """The tags of a branch at its beginning: the protecting one, and a copy of the one it was made from."""
    own = of_branch(table, snapshot)
    assert fork.protecting_tag is not None
    texts = {fork.protecting_tag: Tag(name=fork.protecting_tag, snapshot=own).to_json()}
    if fork.tag is not None:
        path = table.paths.tag(fork.tag)
        text = text_of(table.file_io.read_bytes(path), path)
        if own is not snapshot:
            properties = {**own.properties, DIGEST_KEY: own.digest}
            text = json.dumps({**json.loads(text), "properties": properties}, indent=2)
        texts[fork.tag] = text
    return texts


def _without_log(schema: TableSchema, *, table_name: str) -> dict[str, str]:
    """The options of a schema without those of its log. Raises UnsupportedError if the files need the log."""
    if schema.is_merged_at_write or schema.has_changelog_at_write:
        raise UnsupportedError(
            f"because of its log, each batch of table {table_name} merges rows or writes changelogs; a branch begins "
            "without a log, and its files would have to be rewritten. Create a table without a log, and copy the rows"
        )
    return {
        key: value
        for key, value in schema.options.items()
        if not key.startswith(LOG_OPTION_PREFIXES) and key not in (PropertyKey.PLACE, LOG_BRANCH.key)
    }


def _create_schema(schemas: SchemaManager, schema: TableSchema) -> None:
    with contextlib.suppress(ConflictError):  # another call has finished the step meanwhile
        schemas.create(schema)
