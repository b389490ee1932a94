"""What another engine of the format does to a table of ours, as Flink does it: it compacts and expires.

Its snapshots have no property of lakelog. Its expiry keeps what a consumer has not read.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace

from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.table import FileStoreTable


def foreign_snapshot(
    table: FileStoreTable,
    kind: CommitKind = CommitKind.COMPACT,
    *,
    index_manifest: str | None = None,
    entries: Sequence[ManifestEntry] = (),
) -> Snapshot:
    """A snapshot of the same files, and of those in `entries`, by another engine, behind the newest."""
    newest = table.snapshots.latest()
    assert newest is not None
    names = FileNames()
    live = [
        manifest
        for named in (newest.base_manifest_list, newest.delta_manifest_list)
        for manifest in table.manifests.read_list(named)
    ]
    base, base_size = table.manifests.write_list(live, names=names)
    added = table.manifests.write(entries, names=names, schema_id=newest.schema_id)
    delta, delta_size = table.manifests.write_list(added, names=names)
    row_count = sum(entry.file.row_count for entry in entries)
    foreign = replace(
        newest,
        id=newest.id + 1,
        uuid=str(uuid.uuid4()),
        commit_user="flink",
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=kind,
        delta_record_count=row_count,
        total_record_count=newest.total_record_count + row_count,
        changelog_manifest_list=None,
        index_manifest=index_manifest or newest.index_manifest,
        writer_version=None,
        properties={},
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta,
        delta_manifest_list_size=delta_size,
    )
    assert table.snapshots.create_new(foreign)
    table.snapshots.write_latest_hint(foreign.id)
    return foreign


def carrying_snapshot(table: FileStoreTable, source: Snapshot, kind: CommitKind = CommitKind.COMPACT) -> Snapshot:
    """A snapshot of the same files by another engine, with every property of the file of `source`, digest included.

    So do `compact_manifest`, with the newest snapshot's properties, and `rollback_to_as_latest`, with those of the
    snapshot that comes back. Source: Paimon, `FileStoreCommitImpl`.
    """
    made = foreign_snapshot(table, kind)
    path = table.paths.snapshot(made.id)
    fields = json.loads(table.file_io.read_bytes(path))
    for key, name in (("baseManifestList", made.base_manifest_list), ("deltaManifestList", made.delta_manifest_list)):
        fields[key] = f"manifest-list-{uuid.uuid4()}-0"  # without a digest, as others name it
        table.file_io.write_bytes(
            table.paths.manifest(fields[key]), table.file_io.read_bytes(table.paths.manifest(name))
        )
    fields["properties"] = json.loads(source.to_json())["properties"]
    table.file_io.write_bytes(path, json.dumps(fields).encode())
    return table.snapshots.get(made.id)


def expire_as_others_do(table: FileStoreTable) -> None:
    """Delete every snapshot but the newest, as far as no consumer wants it. Leaves the files that they named."""
    newest = table.snapshots.latest_id()
    assert newest is not None
    first = min(
        [newest, *(consumer.next_snapshot for consumer in ConsumerManager(table.file_io, table.paths).readable())]
    )
    for snapshot_id in table.snapshots.ids():
        if snapshot_id < first:
            table.file_io.delete(table.paths.snapshot(snapshot_id))
    table.snapshots.write_earliest_hint(max(first, min(table.snapshots.ids())))


def roll_back_as_others_do(table: FileStoreTable, target: int | str, *, deletes_files: bool = False) -> None:
    """Delete what is younger than a snapshot, or than that of a tag, whose snapshot may have expired.

    In this order: the hint LATEST, snapshots from the newest down, changelogs that outlive their snapshots from the
    newest down with their own LATEST first (-1 where none is left; their EARLIEST stays as it is), tags. A tag's
    snapshot that has expired gets its file again, with the hint EARLIEST. Data files stay for an orphan removal; with
    `deletes_files`, as older releases do, those go that the deleted snapshots and changelogs added. Sources: Paimon,
    `RollbackHelper`, `SnapshotManager`, `ChangelogManager`.
    """
    retained = table.snapshots.tagged(target) if isinstance(target, str) else table.snapshots.get(target)
    changelogs = ChangelogManager(table.file_io, table.paths)
    younger = [number for number in reversed(table.snapshots.ids()) if number > retained.id]
    younger_changelogs = [number for number in reversed(changelogs.ids()) if number > retained.id]
    added = {path for number in younger for path in _added(table, table.snapshots.get(number))}
    added |= {path for number in younger_changelogs for path in _added(table, changelogs.find(number))}
    table.snapshots.write_latest_hint(retained.id)
    for number in younger:
        table.file_io.delete(table.paths.snapshot(number))
    if younger_changelogs:
        older = [number for number in changelogs.ids() if number <= retained.id]
        latest = younger_changelogs[-1] - 1 if older else -1
        table.file_io.write_bytes(f"{table.paths.changelog_dir}/LATEST", str(latest).encode())
    for number in younger_changelogs:
        table.file_io.delete(table.paths.changelog(number))
    for name in table.snapshots.tags():
        if table.snapshots.tagged(name).id > retained.id:
            table.file_io.delete(table.paths.tag(name))
    if table.snapshots.find(retained.id) is None:
        table.snapshots.create_new(retained)
        table.snapshots.write_earliest_hint(retained.id)
    for path in added if deletes_files else ():
        table.file_io.delete(path)


def _added(table: FileStoreTable, snapshot: Snapshot | None) -> set[str]:
    """The data files that a commit added, and those of its changelog."""
    assert snapshot is not None
    lists = [name for name in (snapshot.delta_manifest_list, snapshot.changelog_manifest_list) if name is not None]
    manifests = [manifest for name in lists for manifest in table.manifests.read_list(name)]
    entries = [entry for manifest in manifests for entry in table.manifests.read(manifest.file_name)]
    return {table.data_path(entry.bucket_id, entry.file) for entry in entries if entry.kind is FileKind.ADD}


def fast_forward_as_others_do(table: FileStoreTable, branch: str) -> None:
    """Let a branch take the table's place.

    Of the table go: the snapshots and tags from the branch's first snapshot on, the schemas from that snapshot's
    schema on, and LATEST. All files in the branch's folders of snapshots (the hints too), schemas and tags come, over
    those of the same name. Consumers, changelogs and the data files stay as they are. Source: Paimon,
    `FileSystemBranchManager.fastForward`.
    """
    line = table.on_branch(branch)
    first = line.snapshots.get(min(line.snapshots.ids()))
    ids = [number for number in table.snapshots.ids() if number >= first.id]
    schemas = [number for number in table.schemas.list_ids() if number >= first.schema_id]
    tags = [name for name in table.snapshots.tags() if table.snapshots.tagged(name).id >= first.id]
    table.file_io.delete(table.paths.latest_hint)
    for path in (*map(table.paths.snapshot, ids), *map(table.paths.schema, schemas), *map(table.paths.tag, tags)):
        table.file_io.delete(path)
    for source, target in (
        (line.paths.snapshot_dir, table.paths.snapshot_dir),
        (line.paths.schema_dir, table.paths.schema_dir),
        (line.paths.tag_dir, table.paths.tag_dir),
    ):
        for name in table.file_io.list_names(source):
            table.file_io.write_bytes(f"{target}/{name}", table.file_io.read_bytes(f"{source}/{name}"))
