"""What is parsed from JSON that others wrote: a clear error, or values of the types and ranges that they must have."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, LakelogError
from lakelog.common.json_fields import JSON_BYTES_MAX, parse_json
from lakelog.common.timestamps import parse_timestamp
from lakelog.common.types import parse_type
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import DIGEST_KEY, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.snapshots.users import CommitUser, PropertyKey, parse_users, users_to_json
from lakelog.filestore.metadata.tables.consumers import ConsumerManager
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.schema.schema import TableSchema
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.state.state import LogPosition, LogState, TakenBatch
from lakelog.streams.reading.offsets import BucketCount, LogOffset, TableMark, offset_from_json, offset_to_json
from tests.support.attacks.json_attacks import attacked
from tests.support.files.data_files import plain_file
from tests.support.tables.small_tables import NO_WAIT, commit_batch, make_table, prepare_batch

MARK = TableMark(uuid="u-1", name="db.t")
HEADER = CommitHeader(
    table_uuid="u-1",
    user="job",
    identifier=7,
    source_digest="ab",
    schema_id=0,
    base_snapshot_id=3,
    record_count=6,
    size_bytes=600,
    files=(BucketFile(partition=bytes(12), meta=plain_file("data-1.parquet")),),
    changelog=(BucketFile(partition=bytes(12), meta=plain_file("changelog-1.parquet")),),
    lineage={"sources": [{"table": "s"}]},
    statement="prepared-1",
)
STATE = LogState(
    topic_id="topic",
    positions={0: LogPosition(offset=5, leader_epoch=1, records=4, size_bytes=99, sequence=6), 1: LogPosition()},
    ledger={1: {"other": TakenBatch(identifier=3, digest="a")}},
)
OFFSET = LogOffset(topic_id="topic", offsets={0: 5}, counts={0: BucketCount(records=4, size_bytes=99)}, consumed=2)


def _snapshot_text() -> str:
    fields = json.loads(
        Snapshot(
            id=3,
            schema_id=0,
            base_manifest_list="manifest-list-1",
            delta_manifest_list="manifest-list-2",
            base_manifest_list_size=9,
            index_manifest="index-manifest-1",
            changelog_record_count=0,
            watermark=5,
            commit_user="job",
            commit_identifier=7,
            commit_kind=CommitKind.APPEND,
            time_millis=1,
            total_record_count=6,
            delta_record_count=6,
            properties={"a": "b"},
        ).to_json()
    )
    del fields["properties"][DIGEST_KEY]  # as others write them, so that a change is not found at once
    return json.dumps(fields)


def _schema_text() -> str:
    row = {"type": "ROW", "fields": [{"id": 3, "name": "m", "type": "DECIMAL(38, 10) NOT NULL"}]}
    fields = [
        {"id": 0, "name": "a", "type": "BIGINT NOT NULL", "description": "d"},
        {"id": 1, "name": "b", "type": {"type": "ARRAY", "element": row}},
        {"id": 2, "name": "c", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "TIMESTAMP(6)"}},
    ]
    return json.dumps(
        {
            "version": 3,
            "id": 0,
            "fields": fields,
            "highestFieldId": 3,
            "partitionKeys": [],
            "primaryKeys": ["a"],
            "options": {"bucket": "2"},
            "comment": "c",
            "timeMillis": 5,
        }
    )


def _consumer(data: bytes) -> object:
    class OneFile(LocalFileIO):
        def read_bytes(self, path: str) -> bytes:
            del path
            return data

    return ConsumerManager(OneFile(), TablePaths("/t")).find("c")


def _parsed_schema(data: bytes) -> object:
    schema = TableSchema.from_json(data, path="schema-0")
    return schema.arrow_schema, schema.key_fields


PARSERS: Mapping[str, tuple[str, Callable[[bytes], object]]] = {
    "snapshot": (_snapshot_text(), lambda data: Snapshot.from_json(data, path="snapshot-3").to_json()),
    "schema": (_schema_text(), _parsed_schema),
    "consumer": ('{"nextSnapshot": 5}', _consumer),
    "header": (HEADER.to_bytes().decode(), lambda data: CommitHeader.from_bytes(data, where="t/0/5").to_bytes()),
    "log state": (STATE.to_json(), lambda data: LogState.from_json(_texted(data), where="snapshot 3").to_json()),
    "users": (
        users_to_json({"job": CommitUser(identifier=1, digest="a", time_millis=5)}),
        lambda data: parse_users({PropertyKey.USERS: _texted(data)}),
    ),
    "source offset": (
        json.dumps(offset_to_json(OFFSET, MARK)),
        lambda data: offset_to_json(offset_from_json(_object(data), MARK), MARK),
    ),
}


def _texted(data: bytes) -> str:
    """The text that a snapshot's property would be."""
    return data.decode("utf-8", "replace")


def _object(data: bytes) -> Mapping[str, object]:
    """The object as Spark gives it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _attack(kind: str, seeds: range) -> None:
    text, parse = PARSERS[kind]
    parse(text.encode())
    refused = longest = 0
    for seed in seeds:
        data = attacked(text, random.Random(f"{kind} {seed}"))
        try:
            parse(data)
        except LakelogError as error:
            refused += 1
            longest = max(longest, len(str(error)))
        except Exception as error:  # noqa: BLE001 - what must not come is reported with the seed
            pytest.fail(f"{kind}, seed {seed}, {data[:300]!r}: {error!r}")
    assert refused > len(seeds) // 4
    assert longest < 2_000


@pytest.mark.parametrize("kind", PARSERS)
def test_changed_json_is_refused_or_harmless(kind: str) -> None:
    _attack(kind, range(300))


@pytest.mark.full
@pytest.mark.parametrize("kind", PARSERS)
def test_10_000_times_changed_json_is_refused_or_harmless(kind: str) -> None:
    _attack(kind, range(10_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 1_000_000, "more than"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper"),
        ('{"a":' * 300 + "1" + "}" * 300, "nested deeper"),
        ("[" + "0," * 600_000 + "0]", "more than"),
        ('"' + "x" * JSON_BYTES_MAX + '"', "bytes, at most"),
        ("NaN", "not a JSON number"),
        ('{"a": "\\udead"}', "surrogates"),
        ("9" * 5_000, "digits"),
    ],
    ids=["brackets", "lists", "objects", "values", "bytes", "nan", "surrogate", "digits"],
)
def test_json_beyond_the_limits_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 1e999),
        ("id", -1),
        ("schemaId", 1 << 63),
        ("timeMillis", "1"),
        ("timeMillis", 10**30),
        ("totalRecordCount", "many"),
        ("commitIdentifier", True),
        ("properties", {"a": 1}),
        ("properties", []),
        ("commitKind", "NOPE"),
        ("baseManifestList", 5),
    ],
)
def test_a_snapshot_holds_values_of_its_types(key: str, value: object) -> None:
    fields = json.loads(_snapshot_text()) | {key: value}
    with pytest.raises(CorruptDataError, match="snapshot-3 is damaged: it is not a readable snapshot"):
        Snapshot.from_json(json.dumps(fields), path="snapshot-3")


@pytest.mark.parametrize(
    "change",
    [
        {"fields": [{"id": 0, "name": "a", "type": "DECIMAL(999999999)"}]},
        {"fields": [{"id": 0, "name": "a", "type": "DECIMAL(5, 6)"}]},
        {"fields": [{"id": 0, "name": "a", "type": "TIMESTAMP(10)"}]},
        {"fields": [{"id": 0, "name": "a", "type": f"VARCHAR({10**12})"}]},
        {"fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "a", "type": "INT"}]},
        {"fields": [{"id": number, "name": f"c{number}", "type": "INT"} for number in range(30_000)]},
        {"fields": [{"id": 1e999, "name": "a", "type": "INT"}]},
        {"fields": {"id": 0}},
        {"primaryKeys": ["nope"]},
        {"primaryKeys": "a"},
        {"options": {"bucket": 2}},
        {"id": 1e999},
        {"version": "3"},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_a_schema_holds_values_of_its_types(change: Mapping[str, object]) -> None:
    text = json.dumps(json.loads(_schema_text()) | {"primaryKeys": []} | change)
    with pytest.raises(CorruptDataError, match=r"^schema-0 is damaged: .{10,500}$"):
        TableSchema.from_json(text, path="schema-0")


def test_a_type_inside_of_many_others_is_refused() -> None:
    kind: object = "INT"
    for _ in range(80):
        kind = {"type": "ARRAY", "element": kind}
    assert isinstance(kind, dict)
    with pytest.raises(LakelogError, match="nested deeper than 64"):
        parse_type(kind)


@pytest.mark.parametrize(
    "data", [b"9" * 4_000, b"1_0", "\u0663".encode(), b"-3", b"\xff", b"1e3", b" ", bytes(1 << 20)]
)
def test_a_hint_that_is_no_id_is_left_alone(tmp_path: Path, data: bytes) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    Path(table.paths.latest_hint).write_bytes(data)
    Path(table.paths.earliest_hint).write_bytes(data)
    snapshots = SnapshotManager(table.file_io, table.paths)
    assert (snapshots.latest_id(), snapshots.earliest_id()) == (1, 1)


def test_a_file_of_metadata_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    with Path(table.paths.snapshot(1)).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptDataError, match=r"snapshot-1 is damaged: it has 1099511627776 bytes"):
        table.snapshots.find(1)


def test_what_would_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    latest = table.snapshots.get(1)
    for properties in ({"a": "x" * JSON_BYTES_MAX}, {"a": "," * 600_000}):
        with pytest.raises(InvalidRequestError, match=r"snapshot 2 of .* would not be readable"):
            table.snapshots.create_new(replace(latest, id=2, properties=properties))
    assert table.snapshots.latest_id() == 1
    columns = [pa.field(f"c{number}", pa.int32()) for number in range(10_001)]
    with pytest.raises(InvalidRequestError, match="at most 10000 columns"):
        build_schema(pa.schema(columns))


def test_no_sequence_number_is_given_beyond_the_last(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    entries = prepare_batch(table, 0)
    last = [replace(entry, file=replace(entry.file, max_sequence_number=(1 << 63) - 1)) for entry in entries]
    append_commit(table, user="job", identifier=0, digest="0", entries=last, clock=NO_WAIT)
    with pytest.raises(CorruptDataError, match="has the sequence number 9223372036854775807, which leaves none"):
        prepare_batch(table, 1)
    header = replace(HEADER, files=(BucketFile(partition=bytes(12), meta=last[0].file),))
    with pytest.raises(CorruptDataError, match=r"sequence numbers . to 9223372036854775807"):
        CommitHeader.from_bytes(header.to_bytes(), where="t/0/5")


@pytest.mark.parametrize(
    "text", ["9" * 31, "1" + "0" * 30, "9" * 5_000, "+292278994-08-17", "0001-01-01T00:00:00+99:00"]
)
def test_a_timestamp_that_no_clock_shows_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="timestamp"):
        parse_timestamp(text)
