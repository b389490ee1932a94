"""A warehouse knows what its tables with a log were renamed to, and so does a copy that was made before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.protocol.access.place import (
    PLACES_MAX,
    check_no_copy,
    original_of,
    read_renames,
    record_rename,
    recorded_place,
    renames_folder,
)
from tests.support.tables.small_tables import SCHEMA, altered_by_others


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table whose options name a log, which is never asked."""
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    options = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    options[PropertyKey.PLACE] = made.path
    (Path(made.path) / "schema/schema-0").write_text(altered_by_others(made.schema, **options))
    return open_table(made.path)


def copied(table: Table, folder: Path) -> Table:
    shutil.copytree(table.path, folder)
    return open_table(folder)


def original(table: Table) -> str | None:
    return original_of(table.store, recorded_place(table.store))


def test_a_copy_whose_original_is_renamed_afterwards_stays_a_copy(
    catalog: Catalog, table: Table, tmp_path: Path
) -> None:
    copy = copied(table, tmp_path / "copy")
    first = catalog.rename_table("db.t", "db.u")
    assert original(copy) == first.path
    second = catalog.rename_table("db.u", "other.v")
    assert original(copy) == second.path
    assert original(second) is None
    with pytest.raises(InvalidRequestError, match=r"copy is a copy of .*other\.db/v, .*table new-identity PATH"):
        check_no_copy(copy.store, recorded_place(copy.store))


def test_a_renamed_table_that_could_not_record_its_place_is_no_copy(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.catalog.catalog.record_place", lambda _table: None)
    renamed = catalog.rename_table("db.t", "db.u")
    assert recorded_place(renamed.store) == table.path
    assert original(renamed) is None


def test_a_rename_that_fails_leaves_the_original_known(
    catalog: Catalog, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copied(table, tmp_path / "copy")
    renamed = catalog.rename_table("db.t", "db.u")
    monkeypatch.setattr(LocalFileIO, "rename_folder", lambda *_paths: False)
    with pytest.raises(InvalidRequestError, match="cannot be renamed"):
        catalog.rename_table("db.u", "db.v")
    assert original(copy) == renamed.path
    assert original(renamed) is None


def test_a_copy_that_is_renamed_is_not_recorded_as_the_original(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    other = copied(table, tmp_path / "copy")
    copied(table, Path(catalog.warehouse, "db.db", "copy"))
    catalog.rename_table("db.copy", "db.still_a_copy")
    assert original(other) == table.path


def test_the_record_of_a_table_without_a_log_goes_with_the_table(catalog: Catalog) -> None:
    table = catalog.create_table("db.plain", schema=SCHEMA, primary_keys=["id"])
    catalog.rename_table("db.plain", "db.other")
    record = Path(renames_folder(table.path), table.uuid)
    assert record.is_file()
    catalog.drop_table("db.other")
    assert not record.exists()


def test_the_record_goes_with_the_table(
    catalog: Catalog, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.protocol.access.topics.drop_topic", lambda _log: None)
    copied(table, tmp_path / "lake/db.db/copy")
    catalog.rename_table("db.t", "db.u")
    record = Path(renames_folder(table.path), table.uuid)
    catalog.drop_table("db.copy")
    assert record.exists()
    catalog.drop_table("db.u")
    assert not record.exists()


def test_the_last_renames_are_kept_in_their_order(tmp_path: Path) -> None:
    files, place = LocalFileIO(), f"{tmp_path}/db.db/t"
    for number in [*range(PLACES_MAX + 5), 10]:
        record_rename(files, place, f"{tmp_path}/db.db/t{number}", "uuid")
    kept = [*(number for number in range(5, PLACES_MAX + 5) if number != 10), 10]
    assert list(read_renames(files, place, "uuid")) == [f"{tmp_path}/db.db/t{number}" for number in kept]


@pytest.mark.parametrize("damaged", ["", "[]", '{"places": "/x"}', '{"places": [7]}', "{}"])
def test_a_damaged_record_is_named_and_a_copy_is_not_taken_for_the_original(
    catalog: Catalog, table: Table, tmp_path: Path, damaged: str
) -> None:
    copy = copied(table, tmp_path / "copy")
    catalog.rename_table("db.t", "db.u")
    record = Path(renames_folder(table.path), table.uuid)
    record.write_text(damaged)
    with pytest.raises(InvalidRequestError, match=rf"cannot be checked: {record} is not readable.*delete the file"):
        original(copy)
    with pytest.raises(CorruptDataError, match="is not readable"):
        catalog.rename_table("db.u", "db.v")
    assert catalog.list_tables("db") == ["u"]


@pytest.mark.parametrize("place", ["relative/t", "/tmp/\0", "s3://bucket/db.db/t"])
def test_a_record_that_names_what_is_not_asked_is_an_error(
    catalog: Catalog, table: Table, tmp_path: Path, place: str
) -> None:
    copy = copied(table, tmp_path / "copy")
    catalog.rename_table("db.t", "db.u")
    Path(renames_folder(table.path), table.uuid).write_text(json.dumps({"places": [place]}))
    with pytest.raises(InvalidRequestError, match="so whether it still exists there is not checked"):
        original(copy)
