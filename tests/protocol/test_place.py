"""A copy of a table with a log is not taken for a table that was moved, nor for another name of the same folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.protocol.access.place import check_no_copy, original_of, recorded_place
from tests.support.tables.small_tables import SCHEMA, altered_by_others


def logged(folder: Path, *, place: str | None = None) -> Table:
    """A table whose options name a log, which is never asked."""
    table = Catalog(folder).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    options = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    options[PropertyKey.PLACE] = place or table.path
    (Path(table.path) / "schema/schema-0").write_text(altered_by_others(table.schema, **options))
    return open_table(table.path)


def copied_to(folder: Path, table: Table) -> Table:
    shutil.copytree(table.path, folder)
    return open_table(folder)


def record_place(table: Table) -> None:
    properties = {PropertyKey.PLACE: table.path}
    request = CommitRequest(commit_user="u", commit_identifier=1, kind=CommitKind.APPEND, properties=properties)
    TableCommit(table.store).commit(lambda _: request)


def check(table: Table) -> None:
    check_no_copy(table.store, recorded_place(table.store))


@pytest.mark.parametrize("has_snapshots", [False, True])
def test_a_copy_is_refused_and_its_original_is_not(tmp_path: Path, has_snapshots: bool) -> None:
    table = logged(tmp_path)
    if has_snapshots:
        record_place(table)
    copy = copied_to(tmp_path / "copy", table)
    check(table)
    with pytest.raises(InvalidRequestError, match=r"copy is a copy of .*db\.db/t, .*table new-identity PATH"):
        check(copy)


def test_a_table_that_was_moved_goes_on_and_records_its_place(tmp_path: Path) -> None:
    table = logged(tmp_path)
    shutil.move(table.path, tmp_path / "moved")
    moved = open_table(tmp_path / "moved")
    check(moved)
    record_place(moved)
    assert recorded_place(moved.store) == moved.path
    with pytest.raises(InvalidRequestError, match=r"is a copy of .*moved"):
        check(copied_to(Path(table.path), moved))


def test_another_table_at_the_older_place_makes_no_copy(tmp_path: Path) -> None:
    table = logged(tmp_path)
    shutil.move(table.path, tmp_path / "moved")
    logged(tmp_path)
    check(open_table(tmp_path / "moved"))


def test_another_name_of_the_same_folder_is_no_copy(tmp_path: Path) -> None:
    table = logged(tmp_path / "lake")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    check(open_table(f"{tmp_path}/link/db.db/t"))
    assert not list((Path(table.path) / "lakelog").iterdir())


def test_a_table_without_a_log_may_be_copied(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    copy = copied_to(tmp_path / "copy", table)
    assert recorded_place(copy.store) is None
    check(copy)


@pytest.mark.parametrize("place", ["s3://bucket/db.db/t", "relative/t", "/tmp/\0"])
def test_a_place_that_cannot_be_asked_is_no_place_that_is_empty(tmp_path: Path, place: str) -> None:
    table = logged(tmp_path, place=place)
    with pytest.raises(InvalidRequestError, match="whether it still exists there is not checked"):
        original_of(table.store, recorded_place(table.store))


def test_no_call_gives_the_place_of_a_new_table(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=PropertyKey.PLACE):
        Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={PropertyKey.PLACE: "/x"})
