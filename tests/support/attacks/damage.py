"""A table that has every kind of file, and what can happen to its files."""

from __future__ import annotations

import random
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import fastavro
import pyarrow as pa

from lakelog.common.types import DataField, parse_type
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.formats.avro.avro import encode_container
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from lakelog.filestore.metadata.snapshots.tag_file import Tag
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from lakelog.filestore.write.write import write_rows
from tests.support.tables.column_types import exact_rows
from tests.support.tables.small_tables import UNSYNCED, in_new_process

_ROWS = 40
_PLAIN = {"file.compression": "none"}  # so that no decompression fails where our own checks should tell
_INDEX_MAGIC = 1_581_511_376
_RANGE = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": [
        {"name": "f0", "type": "string"},
        {"name": "f1", "type": "int"},
        {"name": "f2", "type": "int"},
        {"name": "_CARDINALITY", "type": ["null", "long"], "default": None},
    ],
}
_INDEX_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_INDEX_TYPE", "type": "string"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            {
                "name": "_DELETIONS_VECTORS_RANGES",
                "type": ["null", {"type": "array", "items": _RANGE}],
                "default": None,
            },
        ],
    }
)
Answer = list[str]
Question = Callable[[FileStoreTable], pa.Table]


def rows_of(batch: int, columns: Sequence[str]) -> pa.Table:
    """The rows of a batch: half of the keys of the one before are there again."""
    ids = range(batch * _ROWS // 2, batch * _ROWS // 2 + _ROWS)
    values = {
        "id": pa.array(ids, pa.int64()),
        "name": [f"{batch}-{number % 7}" for number in ids],
        "size": [1.5] * _ROWS,
    }
    return pa.table({column: values[column] for column in columns})


def make_table(folder: Path, file_format: str, *, has_key: bool) -> FileStoreTable:
    """A table of two buckets with a few snapshots, two schemas, two tags, changelog files, and deletion vectors."""
    schema = build_schema(
        pa.schema([("id", pa.int64()), ("name", pa.string())]),
        primary_keys=["id"] if has_key else [],
        options={"bucket": "2", "bucket-key": "id", "file.format": file_format, "write-only": "true"} | _PLAIN,
    )
    table = FileStoreTable.create(folder / "t", schema, UNSYNCED)
    _write(table, 0)
    _write(table, 1)
    added = DataField(id=2, name="size", type=parse_type("DOUBLE"))
    table.schemas.create(
        replace(table.schema, id=1, fields=(*table.schema.fields, added), highest_field_id=2, time_millis=1)
    )
    table = FileStoreTable.open(table.path, UNSYNCED)
    _write(table, 2)
    if not has_key:
        for count in (3, 5):
            _delete_first_rows(table, count)
    for tag, snapshot_id in (("first", 2), ("second", 3)):
        text = Tag(name=tag, snapshot=table.snapshots.get(snapshot_id)).to_json()
        UNSYNCED.write_bytes(table.paths.tag(tag), text.encode())
    table.snapshots.write_earliest_hint(1)
    return table


def _write(table: FileStoreTable, batch: int) -> None:
    """Rows of a batch as data files, and as changelog files too."""
    rows = rows_of(batch, table.schema.field_names)

    def write(first: int, prefix: str) -> list[ManifestEntry]:
        options = {**table.schema.options, "data-file.prefix": prefix}
        store = replace(table, schema=replace(table.schema, options=options))
        return write_rows(store, rows, first_sequence=lambda _: first).entries

    request = CommitRequest(
        commit_user=str(uuid.uuid4()),
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        kind=CommitKind.APPEND,
        entries=write(batch * 100, "data-"),
        changelog=write(batch * 100, "changelog-"),
    )
    assert TableCommit(table).commit(lambda latest: request) is not None


def _delete_first_rows(table: FileStoreTable, count: int) -> None:
    """A snapshot whose deletion vectors take the first rows of every file: `count`, or one more in bucket 1."""
    latest = table.snapshots.latest()
    assert latest is not None
    names = FileNames()
    records = [
        _index_record(table, bucket, [entry.file.file_name for entry in live.values()], count + bucket.number, names)
        for bucket, live in table.live_files.of(latest).buckets.items()
    ]
    data = encode_container(_INDEX_SCHEMA, records)
    name = names.index_manifest(data)
    assert table.file_io.create_new(table.paths.manifest(name), data)
    base = table.manifests.read_list(latest.base_manifest_list) + table.manifests.read_list(latest.delta_manifest_list)
    base_list, base_size = table.manifests.write_list(base, names=names)
    delta_list, delta_size = table.manifests.write_list([], names=names)
    snapshot = replace(
        latest,
        id=latest.id + 1,
        uuid=str(uuid.uuid4()),
        commit_kind=CommitKind.COMPACT,
        base_manifest_list=base_list,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta_list,
        delta_manifest_list_size=delta_size,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
        index_manifest=name,
    )
    assert table.snapshots.create_new(snapshot)
    table.snapshots.write_latest_hint(snapshot.id)


def _index_record(
    table: FileStoreTable, bucket: BucketId, files: Sequence[str], count: int, names: FileNames
) -> Mapping[str, object]:
    """An index file with a vector for each data file, and what an index manifest tells of it."""
    data = bytearray(b"\x01")
    ranges = []
    for file in files:
        bitmap = struct.pack("<IIHHI", 12_346, 1, 0, count - 1, 16) + struct.pack(f"<{count}H", *range(count))
        body = struct.pack(">I", _INDEX_MAGIC) + bitmap
        ranges.append({"f0": file, "f1": len(data), "f2": len(body), "_CARDINALITY": count})
        data += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    name = names.index_file(bytes(data))
    assert table.file_io.create_new(table.paths.index(name), bytes(data))
    return {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": bucket.partition,
        "_BUCKET": bucket.number,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": name,
        "_FILE_SIZE": len(data),
        "_ROW_COUNT": len(ranges),
        "_DELETIONS_VECTORS_RANGES": ranges,
    }


def _changes(table: FileStoreTable, source: ChangeSource, *, after: int | None) -> pa.Table:
    batches = list(changes(table, source=source, after=after))
    return pa.Table.from_batches(batches)


QUESTIONS: Mapping[str, Question] = {
    "all rows": lambda table: table.to_arrow(),
    "few rows": lambda table: table.to_arrow(columns=["name"], where="id between 21 and 27"),
    "a snapshot": lambda table: table.to_arrow(snapshot_id=2, columns=["id", "name"]),
    "a tag": lambda table: table.to_arrow(tag="first"),
    "another tag": lambda table: table.to_arrow(tag="second", columns=["size"]),
    "changes": lambda table: _changes(table, ChangeSource.DELTA, after=0),
    "changes that are there": lambda table: _changes(table, ChangeSource.DELTA, after=None),
    "changelog": lambda table: _changes(table, ChangeSource.CHANGELOG, after=1),
}


def answer(path: str, question: Question) -> Answer:
    """What a process that remembers nothing reads."""
    return sorted(exact_rows(question(in_new_process(path, UNSYNCED))))


KINDS: Mapping[str, str] = {
    "parquet": "bucket-*/data-*.parquet",
    "orc": "bucket-*/data-*.orc",
    "avro": "bucket-*/data-*.avro",
    "changelog": "bucket-*/changelog-*",
    "manifest": "manifest/manifest-[0-9a-f]*",
    "manifest list": "manifest/manifest-list-*",
    "index manifest": "manifest/index-manifest-*",
    "index": "index/index-*",
    "snapshot": "snapshot/snapshot-*",
    "schema": "schema/schema-*",
    "tag": "tag/tag-*",
    "hint": "snapshot/*EST",
}
DAMAGES = ("flip", "overwrite", "truncate", "extend", "swap", "lose")


@dataclass(frozen=True, slots=True)
class Damaged:
    """What was done: the files that are not what they were."""

    files: Sequence[Path]
    what: str


@contextmanager
def damaged(folder: Path, kind: str, damage: str, seed: int) -> Iterator[Damaged]:
    """One file of a kind damaged, and whole again afterwards."""
    chance = random.Random(f"{kind} {damage} {seed}")
    victims = sorted(folder.glob(KINDS[kind]))
    assert len(victims) > 1, f"{folder} has no two files of {KINDS[kind]}"
    victim, sibling = chance.sample(victims, 2)
    before = {path: path.read_bytes() for path in (victim, sibling)}
    try:
        yield _damage(before, victim, sibling, damage, chance)
    finally:
        for path, data in before.items():
            path.write_bytes(data)


def _damage(before: Mapping[Path, bytes], victim: Path, sibling: Path, damage: str, chance: random.Random) -> Damaged:
    data = bytearray(before[victim])
    at = chance.randrange(len(data))
    if damage == "flip":
        data[at] ^= 1 << chance.randrange(8)
    elif damage == "overwrite":
        length = chance.randint(2, 64)
        fill = chance.choice((chance.randbytes(length), bytes(length), b" " * length, b"0" * length))
        data[at : at + length] = fill[: len(data) - at]
    elif damage == "truncate":
        del data[at:]
    elif damage == "extend":
        data += chance.choice((chance.randbytes(9), b" ", b"\n", bytes(4), bytes(data)))
    elif damage == "swap":
        data = bytearray(before[sibling])
        sibling.write_bytes(before[victim])
    else:
        victim.unlink()
        return Damaged([victim], f"{victim.name} is lost")
    victim.write_bytes(data)
    files = [victim, sibling] if damage == "swap" else [victim]
    return Damaged(files, f"{damage} at {at} of {victim.name}")
