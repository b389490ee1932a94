"""The snapshot that a commit makes of the newest one. Source: Paimon spec, "Snapshot"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from lakelog.filestore.commit.commit_clock import next_commit_millis
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.commit.written_manifests import WrittenManifests
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.origins.cleared_rows import cleared_property
from lakelog.filestore.metadata.origins.record import LineKey
from lakelog.filestore.metadata.origins.sources_property import sources_property
from lakelog.filestore.metadata.origins.unseen_changes import unseen_property
from lakelog.filestore.metadata.snapshots.snapshot import (
    OPERATION_KEY,
    PAIMON_OPERATIONS,
    SCHEMA_DIGEST_KEY,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import NO_USERS, CarriedProperties, PropertyKey, lineage_property
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import MAIN_BRANCH

_OF_STATEMENTS = frozenset({None, "DELETE", "MERGE", "OVERWRITE", "UPDATE", "WRITE"})


def snapshot_after(
    table: TableStore,
    latest: Snapshot | None,
    request: CommitRequest,
    *,
    kind: CommitKind,
    commit_uuid: str,
    schema_id: int,
    manifests: WrittenManifests,
    state: CarriedProperties,
    now_millis: int,
) -> Snapshot:
    """The snapshot after `latest` with the changes of `request`; `state` has the properties that go on in it.

    Raises ConflictError as `next_commit_millis`.
    """
    added = request.added_rows
    delta_count = added - request.deleted_rows
    is_described = latest is not None and latest.schema_id == schema_id and request.restores is None
    snapshot = Snapshot(
        id=1 if latest is None else latest.id + 1,
        uuid=commit_uuid,
        schema_id=schema_id,
        base_manifest_list=manifests.base[0],
        base_manifest_list_size=manifests.base[1],
        delta_manifest_list=manifests.delta[0],
        delta_manifest_list_size=manifests.delta[1],
        changelog_manifest_list=manifests.changelog[0],
        changelog_manifest_list_size=manifests.changelog[1],
        changelog_record_count=sum(entry.file.row_count for entry in request.changelog) or None,
        index_manifest=manifests.index,
        commit_user=request.commit_user,
        writer_version=_writer_version(),
        commit_identifier=request.commit_identifier,
        commit_kind=kind,
        time_millis=next_commit_millis(latest, now_millis, table_name=table.name),
        total_record_count=delta_count + (0 if latest is None else latest.total_record_count),
        delta_record_count=delta_count,
        watermark=_later(None if latest is None else latest.watermark, request.watermark),
        statistics=latest.statistics if latest is not None and is_described else None,
        properties=_properties(table, state.properties, request)
        | {SCHEMA_DIGEST_KEY: table.schemas.digest_of(schema_id)},
        next_row_id=None if latest is None else latest.next_row_id,
        operation=request.operation if request.operation in PAIMON_OPERATIONS else None,
    )
    replaces_all = added == snapshot.total_record_count
    snapshot = _with_sources(table, snapshot, latest, state, request, replaces_all=replaces_all)
    return _with_cleared(snapshot, state.properties, request, replaces_all=replaces_all)


@cache
def _writer_version() -> str:
    try:
        return f"lakelog-{version('lakelog')}"
    except PackageNotFoundError:  # lakelog runs from a source tree that is not installed
        return "lakelog"


def _properties(table: TableStore, carried: Mapping[str, str], request: CommitRequest) -> dict[str, str]:
    """The properties, always with the users, so that a search for users ends at the newest snapshot of lakelog."""
    own = {PropertyKey.UUID: table.uuid} if table.uuid else {}
    operation = request.operation
    named = {} if operation is None or operation in PAIMON_OPERATIONS else {OPERATION_KEY: operation}
    return {PropertyKey.USERS: NO_USERS, **carried, **own, **named, **_lineage(table, request), **request.properties}


def _lineage(table: TableStore, request: CommitRequest) -> dict[str, str]:
    """What the handle records about the origin of the rows of its statements."""
    is_statement = request.kind is not CommitKind.COMPACT and request.operation in _OF_STATEMENTS
    if table.lineage is None or not is_statement:
        return {}
    named = {} if request.operation is None else {"operation": request.operation}
    found = {**named, **table.lineage, **request.lineage}
    return lineage_property(request.commit_user, request.commit_identifier, found)


def _with_sources(
    table: TableStore,
    snapshot: Snapshot,
    latest: Snapshot | None,
    state: CarriedProperties,
    request: CommitRequest,
    *,
    replaces_all: bool,
) -> Snapshot:
    """The snapshot with the origin of its rows, and with the snapshots whose changes streams do not get."""
    sources = sources_property(
        snapshot,
        latest,
        state,
        is_restore=PropertyKey.SOURCES in request.properties,
        own=LineKey(table.uuid, None if table.branch == MAIN_BRANCH else table.branch),
        replaces_all=snapshot.commit_kind is CommitKind.OVERWRITE and replaces_all,
    )
    added = {**sources, **unseen_property(snapshot, state)}
    return replace(snapshot, properties={**snapshot.properties, **added}) if added else snapshot


def _with_cleared(
    snapshot: Snapshot, carried: Mapping[str, str], request: CommitRequest, *, replaces_all: bool
) -> Snapshot:
    """The snapshot with the rows that it removes from its table as a whole."""
    cleared = cleared_property(
        snapshot,
        carried,
        replaced={entry.partition for entry in request.entries if entry.kind is FileKind.DELETE},
        replaces_all=replaces_all,
    )
    return replace(snapshot, properties={**snapshot.properties, **cleared}) if cleared else snapshot


def _later(previous: int | None, given: int | None) -> int | None:
    """The later of the known watermarks."""
    known = [watermark for watermark in (previous, given) if watermark is not None]
    return max(known, default=None)
