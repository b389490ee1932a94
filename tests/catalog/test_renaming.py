"""Tables get another name, and databases are dropped: nothing is lost, and nothing is written at an old place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import (
    ConflictError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    UnknownOutcomeError,
    UnsupportedError,
)
from lakelog.filestore.alter.schema_changes import AddColumn
from lakelog.filestore.commit.commit import BEFORE_CREATE, TableCommit
from lakelog.filestore.commit.outcomes import CommitOutcome, continues_table
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.protocol.access.place import original_of, recorded_place
from lakelog.protocol.state.state import LogState
from lakelog.protocol.stores.table_states import newest_state
from tests.support.tables.small_tables import altered_by_others

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id")
    made.write(rows(1))
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, schema=SCHEMA)


def logged(table: Table) -> Table:
    """The same table with options that name a log, which is never asked."""
    options = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    options[PropertyKey.PLACE] = table.path
    (Path(table.path) / "schema/schema-0").write_text(altered_by_others(table.schema, **options))
    return open_table(table.path)


@pytest.mark.parametrize("new", ["db.u", "other.u"])
def test_a_renamed_table_is_the_same_under_its_new_name(catalog: Catalog, table: Table, new: str) -> None:
    renamed = catalog.rename_table("db.t", new)
    assert (renamed.name, renamed.uuid) == (new, table.uuid)
    assert renamed.path == catalog.load_table(new).path
    renamed.write(rows(2))
    assert sorted(catalog.load_table(new).to_arrow()["id"].to_pylist()) == [1, 2]
    with pytest.raises(NotFoundError, match=r"table db\.t does not exist"):
        catalog.load_table("db.t")
    again = catalog.create_table("db.t", schema=SCHEMA)
    assert again.uuid != renamed.uuid


def test_a_name_that_is_taken_is_refused_and_nothing_is_renamed(catalog: Catalog, table: Table) -> None:
    catalog.create_table("db.u", schema=SCHEMA)
    stray = Path(catalog.warehouse, "db.db", "v", "file")
    stray.parent.mkdir()
    stray.touch()
    with pytest.raises(InvalidRequestError, match=r"table db\.u exists already"):
        catalog.rename_table("db.t", "db.u")
    with pytest.raises(InvalidRequestError, match=r"table db\.t exists already"):
        catalog.rename_table("db.t", "db.t")
    with pytest.raises(InvalidRequestError, match="db/v exists, and is not empty; move it away"):
        catalog.rename_table("db.t", "db.v")
    with pytest.raises(NotFoundError, match=r"table db\.no does not exist"):
        catalog.rename_table("db.no", "db.w")
    assert catalog.list_tables("db") == ["t", "u"]
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.write(rows(2)),
        lambda table: table.write(rows(2), mode="overwrite"),
        lambda table: table.delete("id = 1"),
        lambda table: table.compact(full=True),
        lambda table: table.alter(AddColumn("more", "INT")),
        lambda table: table.upkeep.rescale(2),
        lambda table: table.consumers.reset("reader", 1),
    ],
)
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_who_opened_a_table_before_writes_nothing_at_its_old_place(
    catalog: Catalog, write: Callable[[Table], object], has_snapshots: bool
) -> None:
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id")
    if has_snapshots:
        table.write(rows(1))
    renamed = catalog.rename_table("db.t", "db.u")
    before = [path for path in Path(renamed.path).rglob("*") if path.is_file()]
    with pytest.raises(LakelogError):
        write(table)
    assert not Path(table.path).exists()
    assert [path for path in Path(renamed.path).rglob("*") if path.is_file()] == before
    assert renamed.to_arrow().num_rows == int(has_snapshots)


def test_a_renamed_table_is_not_read_as_an_empty_one(catalog: Catalog, table: Table) -> None:
    catalog.rename_table("db.t", "db.u")
    for read in (table.to_arrow, table.snapshot, lambda: list(table.changes()), lambda: table.to_polars().collect()):
        with pytest.raises(ConflictError, match=r"was dropped, renamed, or created again, since .* by its new name"):
            read()


def test_a_writer_that_is_late_says_that_the_table_was_renamed(catalog: Catalog, table: Table) -> None:
    catalog.rename_table("db.t", "db.u")
    with pytest.raises((ConflictError, NotFoundError), match=r"was dropped, renamed, or created again|does not exist"):
        table.write(rows(2))


def test_a_commit_that_a_rename_overtakes_is_not_made_at_the_old_place(catalog: Catalog, table: Table) -> None:
    def rename(step: str) -> None:
        if step == BEFORE_CREATE:
            catalog.rename_table("db.t", "db.u")

    request = CommitRequest(commit_user="u", commit_identifier=1, kind=CommitKind.APPEND)
    with pytest.raises(UnknownOutcomeError) as caught:
        TableCommit(table.store).commit(lambda _latest: request, on_step=rename)
    assert not Path(table.path).exists()
    renamed = catalog.load_table("db.u")
    assert [snapshot.id for snapshot in renamed.snapshots()] == [1]
    uuid, number = caught.value.commit_uuid, caught.value.snapshot_id
    ask = f"find-commit NEW_PATH {uuid} --snapshot-id {number}, with the folder of the renamed table"
    assert "was dropped, renamed, or created again" in str(caught.value)
    assert ask in str(caught.value)
    assert uuid is not None
    assert renamed.upkeep.find_commit(uuid, snapshot_id=number).outcome is CommitOutcome.NOT_COMMITTED


def test_a_commit_whose_table_is_renamed_before_its_answer_is_found_under_the_new_name(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_new = LocalFileIO.create_new

    def create_and_rename(files: LocalFileIO, path: str, data: bytes) -> bool:
        created = create_new(files, path, data)
        if path.endswith("/snapshot-2"):
            catalog.rename_table("db.t", "db.u")
        return created

    monkeypatch.setattr(LocalFileIO, "create_new", create_and_rename)
    with pytest.raises(UnknownOutcomeError, match="find-commit NEW_PATH") as caught:
        table.write(rows(2))
    uuid = caught.value.commit_uuid
    assert uuid is not None
    found = catalog.load_table("db.u").upkeep.find_commit(uuid, snapshot_id=caught.value.snapshot_id)
    assert found.outcome is CommitOutcome.COMMITTED
    assert sorted(catalog.load_table("db.u").to_arrow()["id"].to_pylist()) == [1, 2]
    assert not Path(table.path).exists()


def test_a_snapshot_that_was_renamed_with_its_table_is_not_reported_as_missing(catalog: Catalog, table: Table) -> None:
    snapshot = table.snapshot()
    assert snapshot is not None
    live = table.store.live_files.of(snapshot)
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(NotFoundError, match=r"was created in .*, and the table was renamed or dropped since"):
        continues_table(table.store, snapshot, live, before=table.store.snapshots.find(snapshot.id - 1))


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_table_with_a_log_records_where_it_is(catalog: Catalog, has_snapshots: bool) -> None:
    table = logged(catalog.create_table("db.t", schema=SCHEMA, primary_keys="id"))
    if has_snapshots:
        request = CommitRequest(
            commit_user="u", commit_identifier=1, kind=CommitKind.APPEND, properties={PropertyKey.PLACE: table.path}
        )
        TableCommit(table.store).commit(lambda _latest: request)
    renamed = catalog.rename_table("db.t", "db.u")
    assert recorded_place(renamed.store) == renamed.path
    assert renamed.log is not None
    assert (renamed.log.topic, renamed.log.topic_id, renamed.uuid) == ("t", "i", table.uuid)
    shutil.copytree(renamed.path, table.path)  # a copy at the old place is a copy, and not the original
    copy = open_table(table.path)
    assert original_of(copy.store, recorded_place(copy.store)) == renamed.path
    assert original_of(renamed.store, recorded_place(renamed.store)) is None


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_task_of_a_stream_stops_at_its_look_at_the_old_place(catalog: Catalog, has_snapshots: bool) -> None:
    table = logged(catalog.create_table("db.t", schema=SCHEMA, primary_keys="id"))
    if has_snapshots:
        state = {PropertyKey.LOG_STATE: LogState(topic_id="i").to_json()}
        request = CommitRequest(commit_user="u", commit_identifier=1, kind=CommitKind.APPEND, properties=state)
        TableCommit(table.store).commit(lambda _latest: request)
    assert newest_state(table.store, topic_id="i").snapshot_id == int(has_snapshots)
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(ConflictError, match="was dropped, renamed, or created again"):
        newest_state(table.store, topic_id="i")


def test_a_renamed_copy_stays_a_copy(catalog: Catalog, table: Table) -> None:
    original = logged(table)
    shutil.copytree(original.path, Path(catalog.warehouse, "db.db", "copy"))
    renamed = catalog.rename_table("db.copy", "db.other")
    assert original_of(renamed.store, recorded_place(renamed.store)) == original.path


def test_a_link_is_not_renamed(catalog: Catalog, table: Table) -> None:
    Path(catalog.warehouse, "db.db", "link").symlink_to(table.path)
    with pytest.raises(InvalidRequestError, match=r"is a link to .*; tables are not renamed through links"):
        catalog.rename_table("db.link", "db.u")


def test_a_database_is_dropped_when_it_is_empty_or_with_its_tables(catalog: Catalog, table: Table) -> None:
    catalog.create_table("db.u", schema=SCHEMA)
    folder = Path(catalog.warehouse, "db.db")
    (folder / ".t-0b7f1f8e-3c1d-4f0e-9a55-0d2d3c1d4f0e" / "bucket-0").mkdir(parents=True)  # a drop was cut off
    with pytest.raises(InvalidRequestError, match="database 'db' holds the tables t, u; drop them first, or give c"):
        catalog.drop_database("db")
    assert table.to_arrow().num_rows == 1
    catalog.drop_database("db", cascade=True)
    assert not folder.exists()
    assert catalog.list_databases() == []
    with pytest.raises(NotFoundError, match=r"database 'db' does not exist in .*; there are: none"):
        catalog.drop_database("db")
    catalog.drop_database("db", if_exists=True)
    catalog.create_table("db.t", schema=SCHEMA)
    catalog.drop_table("db.t")
    catalog.drop_database("db")
    assert not folder.exists()


def test_a_database_with_what_is_not_a_table_is_kept_whole(catalog: Catalog, table: Table) -> None:
    notes = Path(catalog.warehouse, "db.db", "notes.txt")
    notes.touch()
    with pytest.raises(InvalidRequestError, match=r"holds notes\.txt in .*, which are not tables; move or delete them"):
        catalog.drop_database("db", cascade=True)
    assert notes.exists()
    assert table.to_arrow().num_rows == 1


def test_tables_whose_log_cannot_be_dropped_keep_the_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.create_table("db.a", schema=SCHEMA)
    logged(catalog.create_table("db.z", schema=SCHEMA, primary_keys="id"))
    dropped: list[str] = []
    monkeypatch.setattr(Catalog, "drop_table", lambda _self, name: dropped.append(name))
    with pytest.raises(ConflictError, match="database 'db' got new files"):
        catalog.drop_database("db", cascade=True)  # nothing is dropped here
    assert dropped == ["db.z", "db.a"]


def test_a_store_without_folders_renames_no_table(catalog: Catalog, table: Table) -> None:
    class NoFolders:
        """The calls of a FileIO alone, as an object store has them."""

        def __getattr__(self, name: str) -> object:
            if name in {"rooted", "rename_folder"}:
                raise AttributeError(name)
            return getattr(LocalFileIO(), name)

    catalog._file_io = NoFolders()  # type: ignore[assignment]  # it passes all calls on
    with pytest.raises(UnsupportedError, match=r"is in an object store, .*; create db\.u, write it the rows of db\.t"):
        catalog.rename_table("db.t", "db.u")
    assert table.to_arrow().num_rows == 1
