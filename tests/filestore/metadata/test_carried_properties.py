"""Properties of lakelog that another engine has copied into a snapshot of its own count for nothing there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import DIGEST_KEY, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import carried_properties, parse_users
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from lakelog.filestore.write.write import write_rows
from tests.support.tables.foreign_engine import carrying_snapshot

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
STREAM = "a-stream"


def table_of_batches(folder: Path, count: int) -> FileStoreTable:
    """A table with batches 0 to `count` - 1 of one stream, a row each."""
    built = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table = FileStoreTable.create(folder / "t", built, LocalFileIO(sync_data=False))
    for number in range(count):
        write_batch(table, number)
    return table


def write_batch(table: FileStoreTable, number: int) -> None:
    first = table.live_files.of(table.snapshots.latest()).next_sequence
    entries = write_rows(table, pa.table({"id": [number]}, schema=SCHEMA), first_sequence=first).entries
    append_commit(table, user=STREAM, identifier=number, digest=None, entries=entries)


def opened(table: FileStoreTable) -> FileStoreTable:
    return FileStoreTable.open(table.path, table.file_io)


def ids(table: FileStoreTable) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("source", [1, 3])
@pytest.mark.parametrize("kind", [CommitKind.COMPACT, CommitKind.OVERWRITE])
def test_a_table_with_copied_properties_is_read_written_and_expired(
    tmp_path: Path, source: int, kind: CommitKind
) -> None:
    table = table_of_batches(tmp_path, 3)
    carrying_snapshot(table, table.snapshots.get(source), kind)

    for handle in (table, opened(table)):
        assert ids(handle) == [0, 1, 2]
    write_batch(opened(table), 3)
    write_batch(opened(table), 3)  # a replay
    assert ids(opened(table)) == [0, 1, 2, 3]
    opened(table).compact(full=True)
    expire_snapshots(opened(table), retention=Retention(count_min=1, count_max=1, age_millis=0, limit=1_000))
    assert ids(opened(table)) == [0, 1, 2, 3]


def test_the_state_is_that_of_the_last_snapshot_of_lakelog(tmp_path: Path) -> None:
    table = table_of_batches(tmp_path, 3)
    foreign = carrying_snapshot(table, table.snapshots.get(1), CommitKind.OVERWRITE)

    carried = carried_properties(foreign, table.snapshots)
    assert carried.foreign == (foreign,)
    assert parse_users(carried.properties)[STREAM].identifier == 2


def test_properties_of_other_programs_stay(tmp_path: Path) -> None:
    table = table_of_batches(tmp_path, 1)
    source = table.snapshots.get(1)
    foreign = carrying_snapshot(table, replace(source, properties={**source.properties, "owner": "sales"}))
    assert foreign.properties == {"owner": "sales"}


def test_a_tag_of_such_a_snapshot_is_read(tmp_path: Path) -> None:
    table = table_of_batches(tmp_path, 2)
    foreign = carrying_snapshot(table, table.snapshots.get(1))
    write_tag(table, "kept", foreign)
    assert opened(table).to_arrow(tag="kept").num_rows == 2
    path = Path(table.paths.tag("theirs"))
    path.write_bytes(table.file_io.read_bytes(table.paths.snapshot(foreign.id)))  # as another engine makes a tag
    assert opened(table).to_arrow(tag="theirs").num_rows == 2


def test_what_a_stranger_writes_into_the_state_is_not_believed(tmp_path: Path) -> None:
    """The digest covers properties: a snapshot of another engine with a changed state gets none of it."""
    table = table_of_batches(tmp_path, 1)
    foreign = carrying_snapshot(table, table.snapshots.get(1))
    path = Path(table.paths.snapshot(foreign.id))
    fields = json.loads(path.read_text())
    fields["properties"]["lakelog.users"] = json.dumps({STREAM: {"id": 9, "digest": None, "time": 0}})
    path.write_text(json.dumps(fields))
    write_batch(opened(table), 1)
    assert ids(opened(table)) == [0, 1]


DAMAGES = {"id": 7, "totalRecordCount": 5, "timeMillis": 1, "commitUser": "b"}


@pytest.mark.parametrize("key", [*DAMAGES, "properties"])
@pytest.mark.parametrize("names_its_writer", [True, False])
def test_a_damaged_snapshot_of_lakelog_is_damage(tmp_path: Path, key: str, names_its_writer: bool) -> None:
    """Also in the tag of an older release of Paimon, which does not keep who wrote the snapshot."""
    table = table_of_batches(tmp_path, 1)
    fields = json.loads(table.snapshots.get(1).to_json())
    if not names_its_writer:
        del fields["writerVersion"]
    Snapshot.from_fields(fields, path="as it was")
    if key == "properties":
        fields[key]["lakelog.users"] = json.dumps({"other": {"id": 0, "digest": None, "time": 0}})
    else:
        fields[key] = DAMAGES[key]
    with pytest.raises(CorruptDataError, match="/t/snapshot-1 is damaged: it names the digest"):
        Snapshot.from_fields(fields, path="/t/snapshot-1")


def test_a_snapshot_of_lakelog_without_a_digest_is_damage(tmp_path: Path) -> None:
    fields = json.loads(table_of_batches(tmp_path, 1).snapshots.get(1).to_json())
    del fields["properties"][DIGEST_KEY]
    with pytest.raises(CorruptDataError, match="it names the digest None"):
        Snapshot.from_fields(fields, path="/t/snapshot-1")
