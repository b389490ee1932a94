"""A table with very much metadata and no data files: manifests, snapshots, tags and branches in the right bytes.

The files are written in bulk, as commits that were merged would leave them: manifests in the order of the partitions,
then small commits of one file each, which replace the file of the commit before, then snapshots without a change, whose
lists are the same. Nothing opens a data file.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.files.plan import SCHEMA
from lakelog.catalog import Table
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.encoding.binary_row import serialize_row
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.table import FileStoreTable

FILES_A_PARTITION = 100
BUCKETS_A_PARTITION = 10
ROWS_A_FILE = 1_000
LEVEL = 5
_STATS_COLUMNS = ("id", "amount", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much metadata there is; `small_commits` are those whose snapshots have lists of their own.

    `expired` snapshots are deleted by an expiry: 50 in one of a writer, by the default of `snapshot.expire.limit`.
    """

    files: int
    buckets: int
    snapshots: int
    branches: int
    tags: int
    small_commits: int
    expired: int

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.files // FILES_A_PARTITION


FULL = Size(
    files=1_000_000, buckets=1_000, snapshots=100_000, branches=1_000, tags=10_000, small_commits=600, expired=50
)
HUNDREDTH = Size(files=10_000, buckets=10, snapshots=1_000, branches=10, tags=100, small_commits=600, expired=50)
SMALL = Size(files=2_000, buckets=10, snapshots=200, branches=2, tags=10, small_commits=60, expired=5)
SMALL_HUNDREDTH = Size(files=1_000, buckets=10, snapshots=150, branches=1, tags=5, small_commits=60, expired=5)


def opened(path: Path) -> FileStoreTable:
    """The table; without fsync of its data files, which are not there."""
    return FileStoreTable.open(path, LocalFileIO(sync_data=False))


def make_metadata(path: Path, size: Size) -> None:
    """Write the table."""
    options = {"bucket": str(size.buckets), "write-only": "true", "snapshot.num-retained.min": "1000000000"}
    options["snapshot.num-retained.max"] = "1000000000"
    schema = build_schema(SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options=options)
    table = FileStoreTable.create(path, schema, LocalFileIO(sync_data=False))
    _commit_replacing(table, range(1))
    _add_bulk(table, size)
    _commit_replacing(table, range(1, size.small_commits))
    living = list(_add_quiet_snapshots(table, size))
    tagged = living[:: max(1, len(living) // size.tags)][: size.tags]
    Path(table.paths.tag_dir).mkdir()
    for number, snapshot in enumerate(tagged):
        tag = Tag(name=f"tag-of-{number:06}", snapshot=snapshot)
        Path(table.paths.tag(tag.name)).write_text(tag.to_json())
    branches = Table(opened(path)).branches
    for number in range(size.branches):
        branches.create(f"branch-{number:05}", tag=f"tag-of-{number * len(tagged) // size.branches:06}")


def bucket_numbers(partition: int, buckets: int) -> list[int]:
    """The buckets of a partition."""
    return [(partition * BUCKETS_A_PARTITION + number) % buckets for number in range(BUCKETS_A_PARTITION)]


def partition_row(table: FileStoreTable, partition: int) -> bytes:
    """The serialized row of a partition."""
    return serialize_row([field.type for field in table.schema.partition_fields], [partition])


def new_entry(
    table: FileStoreTable, partition: int, bucket: int, name: str, *, number: int, level: int
) -> ManifestEntry:
    """The entry of file `number` of a bucket, whose keys and sequence numbers come after those of the file before."""
    return ManifestEntry(
        kind=FileKind.ADD,
        partition=partition_row(table, partition),
        bucket=bucket,
        total_buckets=table.bucket_count,
        file=_file(table, name, number=number, level=level),
    )


def _file(table: FileStoreTable, name: str, *, number: int, level: int) -> DataFileMeta:
    first = number * ROWS_A_FILE
    last = first + ROWS_A_FILE - 1
    low, high = (serialize_row(table.key_types, [key]) for key in (first, last))
    kinds = [field.type for field in table.schema.fields if field.name in _STATS_COLUMNS]
    return DataFileMeta(
        file_name=name,
        file_size_bytes=1 << 20,
        row_count=ROWS_A_FILE,
        min_key=low,
        max_key=high,
        key_stats=SimpleStats(min_values=low, max_values=high, null_counts=(0,)),
        value_stats=SimpleStats(
            min_values=serialize_row(kinds, [first, number * 7_919 % 10_007, f"name-{number:06}-aaaaa"]),
            max_values=serialize_row(kinds, [last, 1 << 40, f"name-{number:06}-zzzzz"]),
            null_counts=(0, 0, 0),
        ),
        min_sequence_number=first,
        max_sequence_number=last,
        schema_id=0,
        level=level,
        creation_time_millis=None,  # no commit asks for a file whose age is not known
        delete_row_count=0,
        file_source=FileSource.COMPACT,
        value_stats_cols=_STATS_COLUMNS,
    )


def _bulk_entries(table: FileStoreTable, size: Size, partition: int, names: FileNames) -> Iterator[ManifestEntry]:
    row = partition_row(table, partition)
    files = [_file(table, "", number=number, level=LEVEL) for number in range(FILES_A_PARTITION // BUCKETS_A_PARTITION)]
    for bucket in bucket_numbers(partition, size.buckets):
        for file in files:
            named = replace(file, file_name=names.data_file("parquet", prefix="data-"))
            yield ManifestEntry(kind=FileKind.ADD, partition=row, bucket=bucket, total_buckets=size.buckets, file=named)


def _add_bulk(table: FileStoreTable, size: Size) -> None:
    """One snapshot with all the files: what many commits and merges of manifests leave."""
    names = FileNames()
    entries = itertools.chain.from_iterable(
        _bulk_entries(table, size, partition, names) for partition in range(1, size.partitions + 1)
    )
    added = []
    while piece := list(itertools.islice(entries, 100_000)):
        added += table.manifests.write(piece, names=names, schema_id=table.schema.id)
    before = _latest(table)
    base = [
        *table.manifests.read_list(before.base_manifest_list),
        *table.manifests.read_list(before.delta_manifest_list),
    ]
    rows = size.files * ROWS_A_FILE
    base_list, base_size = table.manifests.write_list(base, names=names)
    delta_list, delta_size = table.manifests.write_list(added, names=names)
    _create(
        table,
        replace(
            before,
            id=before.id + 1,
            uuid=str(uuid.uuid4()),
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            delta_record_count=rows,
            total_record_count=before.total_record_count + rows,
        ),
    )


def _commit_replacing(table: FileStoreTable, numbers: range) -> None:
    """Commits of one file each in a partition of its own, in place of the file of the commit before."""
    for number in numbers:
        entries = [new_entry(table, 0, 0, f"data-small-{number}.parquet", number=number, level=0)]
        if number:
            before = new_entry(table, 0, 0, f"data-small-{number - 1}.parquet", number=number - 1, level=0)
            entries.insert(0, replace(before, kind=FileKind.DELETE))
        request = CommitRequest(
            commit_user="history", commit_identifier=number, kind=CommitKind.COMPACT, entries=entries
        )
        TableCommit(table).commit(partial(_always, request))


def _always(request: CommitRequest, _: Snapshot | None) -> CommitRequest:
    return request


def _add_quiet_snapshots(table: FileStoreTable, size: Size) -> Iterator[Snapshot]:
    """Snapshots with the state of the newest, up to the wanted number."""
    before = _latest(table)
    names = FileNames()
    base = [
        *table.manifests.read_list(before.base_manifest_list),
        *table.manifests.read_list(before.delta_manifest_list),
    ]
    base_list, base_size = table.manifests.write_list(base, names=names)
    delta_list, delta_size = table.manifests.write_list([], names=names)
    quiet = replace(
        before,
        base_manifest_list=base_list,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta_list,
        delta_manifest_list_size=delta_size,
        delta_record_count=0,
    )
    for number in range(before.id + 1, size.snapshots + 1):
        snapshot = replace(quiet, id=number, uuid=str(uuid.uuid4()), commit_identifier=number)
        Path(table.paths.snapshot(number)).write_text(snapshot.to_json())  # not synchronized with the disk one by one
        yield snapshot
    table.snapshots.write_latest_hint(size.snapshots)
    table.snapshots.write_earliest_hint(1)


def _latest(table: FileStoreTable) -> Snapshot:
    newest = table.snapshots.latest()
    assert newest is not None
    return newest


def _create(table: FileStoreTable, snapshot: Snapshot) -> None:
    assert table.snapshots.create_new(snapshot)
    table.snapshots.write_latest_hint(snapshot.id)
