"""Files of the model's tables in which rows wait for compactions, as lineage reads them: manifests without files."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple, cast  # Any: a store that has as much as is read

import pyarrow as pa

from lakelog.filestore.metadata.manifests.manifest_entries import FileKind
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.waiting_rows import WaitingRows
from lakelog.filestore.schema.new_schema import build_schema

Key = tuple[str, ...]
BUCKETS = 2
TOP = 5
VECTORS = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
# Of each kind its options, whether batch reads leave level 0 out, and whether streams do.
KINDS: Mapping[str, tuple[Mapping[str, str], bool, bool]] = {
    "plain": ({}, False, False),
    "deletion vectors": (VECTORS, True, False),
    "lookup": (LOOKUP, False, True),
    "deletion vectors, lookup": ({**VECTORS, **LOOKUP}, True, True),
}
_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
_names = count(1)


class File(NamedTuple):
    """A file: its rows are of one bucket."""

    name: int
    bucket: int
    level: int
    rows: tuple[tuple[Key, int], ...]


Files = tuple[File, ...]


def bucket_of(key: Key) -> int:
    """The bucket of a row."""
    return int(key[-1]) % BUCKETS if key[-1].isdigit() else 0


def written(rows: Mapping[Key, int]) -> Files:
    """Files of level 0 with these rows."""
    found = [(bucket, [one for one in rows.items() if bucket_of(one[0]) == bucket]) for bucket in range(BUCKETS)]
    return tuple(File(next(_names), bucket, 0, tuple(own)) for bucket, own in found if own)


def compacted(files: Files, choose: random.Random, earlier: Sequence[Files]) -> Files:
    """The files after a compaction of some buckets, or of all; also of one that began with an earlier state."""
    buckets = choose.choice([{0}, {1}, {0, 1}, {0, 1}])
    began = choose.choice([files, files, *earlier[-2:]])
    merged = [one for one in files if one in began and one.bucket in buckets]
    if {one for one in began if one.level} - set(files):  # another compaction came first
        return files
    left = [one for one in files if one not in merged]
    new = []
    for bucket in sorted({one.bucket for one in merged}):
        rows = rows_of([one for one in merged if one.bucket == bucket])
        new.append(File(next(_names), bucket, TOP, tuple(rows.items())))
    return (*new, *left)


def rows_of(files: Iterable[File], *, level_min: int = 0) -> dict[Key, int]:
    """The rows of files, the later ones of a key."""
    ordered = sorted((one for one in files if one.level >= level_min), key=lambda one: (-one.level, one.name))
    return {key: value for one in ordered for key, value in one.rows}


def waiting_rows(kind: str, files: Mapping[str, Files], before: Mapping[str, Files]) -> WaitingRows:
    """What reads show of the snapshots of a table, by the files of each commit, and of the one before it."""

    def live(snapshot: Snapshot) -> Any:
        return SimpleNamespace(entries=lambda: [_entry(one, FileKind.ADD) for one in files[str(snapshot.uuid)]])

    def delta(uuid: str) -> list[Any]:
        old, new = before[uuid], files[uuid]
        added = [_entry(one, FileKind.ADD) for one in new if one not in old]
        return [*(_entry(one, FileKind.DELETE) for one in old if one not in new), *added]

    schema = build_schema(_SCHEMA, primary_keys=["id"], options={"bucket": str(BUCKETS), **KINDS[kind][0]})
    store: Any = SimpleNamespace(
        schema=schema,
        manifests=SimpleNamespace(read_list=lambda name, **_: name, read_entries=delta),
        live_files=SimpleNamespace(of=live, continues=lambda earlier, later: files[earlier.uuid] == before[later.uuid]),
    )
    return WaitingRows(cast("Any", store))


def _entry(file: File, kind: FileKind) -> Any:
    return SimpleNamespace(
        kind=kind,
        bucket=file.bucket,
        bucket_id=(b"", file.bucket),
        identifier=(file.bucket, file.level, file.name),
        file=SimpleNamespace(level=file.level, min_sequence_number=file.name),
    )
