"""Links and external paths lead out of a table only where its user allows it, and only to be read."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from lakelog.spark.options import open_from_options
from tests.support.attacks.hostile_tables import EVERYTHING, World, make_world, rewrite
from tests.support.tables.small_tables import in_new_process, make_table, rows_of

KEY = "lakelog.external-paths"


def ids(table: FileStoreTable) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def moved_out(world: World, name: str) -> Path:
    """A folder of the table, put outside, with a link in its place."""
    inside, moved = Path(world.table, name), world.outside / "moved" / name
    moved.parent.mkdir(parents=True, exist_ok=True)
    if inside.exists():
        shutil.move(inside, moved)
    else:
        moved.mkdir()
    inside.parent.mkdir(exist_ok=True)
    inside.symlink_to(moved)
    return moved


@pytest.mark.parametrize(
    "name",
    ["manifest", "index", "statistics", "snapshot", "changelog", "tag", "consumer", "branch/branch-x", "bucket-0"],
)
def test_a_linked_folder_is_left_alone(tmp_path: Path, name: str) -> None:
    world = make_world(tmp_path, has_key=False)
    link = Path(world.table, name)
    if link.exists():
        shutil.rmtree(link)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(world.outside)
    assert world.run(), "nothing was refused"


@pytest.mark.parametrize("name", ["manifest", "index", "snapshot", "schema", "bucket-0"])
def test_a_folder_that_was_moved_out_is_neither_read_nor_changed(tmp_path: Path, name: str) -> None:
    world = make_world(tmp_path, has_key=False)
    moved_out(world, name)
    before = world.content()
    with pytest.raises(CorruptDataError, match=f"{name} is a link that leads out of the table"):
        in_new_process(world.table).to_arrow()
    if name != "schema":
        assert "read" in world.run()
    assert world.content() == before


def test_a_linked_file_is_not_followed_and_never_written_through(tmp_path: Path) -> None:
    world = make_world(tmp_path, has_key=True)
    for path in Path(world.table).glob("bucket-*/data-*"):
        path.unlink()
        path.symlink_to(world.outside / "data.parquet")
    hint = Path(world.table, "snapshot", "LATEST")
    hint.unlink()
    hint.symlink_to(world.outside / "note")
    errors = world.run()
    assert isinstance(errors["read"], CorruptDataError)
    assert (world.outside / "note").read_bytes() == b"somebody else's"


def test_links_inside_of_a_table_are_followed(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.write(rows_of(0))
    folder = Path(table.path)
    (folder / "bucket-0").rename(folder / "first")
    (folder / "bucket-0").symlink_to(folder / "first")
    linked = tmp_path / "link"
    linked.symlink_to(folder)
    found = in_new_process(str(linked))
    assert ids(found) == ids(in_new_process(table.path))
    found.write(rows_of(1))
    expire_snapshots(found, retention=EVERYTHING)
    assert len(ids(in_new_process(table.path))) == 9


def test_places_outside_are_read_where_the_user_allows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(tmp_path, has_key=True)
    expected = ids(in_new_process(world.table))
    moved = moved_out(world, "bucket-0")
    before = world.content()
    allowed = FileStoreTable.open(world.table, options={KEY: f"{tmp_path}/nowhere,{moved.parent}"})
    assert ids(allowed) == expected
    with pytest.raises(CorruptDataError, match="link that leads out"):
        allowed.compact(full=True)
    monkeypatch.setenv("LAKELOG_EXTERNAL_PATHS", str(world.outside))
    assert ids(in_new_process(world.table)) == expected
    world.run("expire", "orphans")
    assert world.content() == before
    found = Catalog(tmp_path / "lake", options={KEY: str(moved)}).load_table("db.t").store
    monkeypatch.delenv("LAKELOG_EXTERNAL_PATHS")
    assert ids(found) == expected


def externalise(world: World, form: str) -> None:
    """Move the data files of the lowest level to the folder outside; manifests say where."""
    for path in Path(world.table).glob("bucket-*/data-*"):
        shutil.copy(path, world.outside / path.name)

    def change(record: dict[str, object]) -> None:
        file = record["_FILE"]
        assert isinstance(file, dict)
        file["_EXTERNAL_PATH"] = form.format(folder=world.outside, name=file["_FILE_NAME"])

    rewrite(world.table, entry=change)
    for path in Path(world.table).glob("bucket-*/data-*"):
        path.unlink()


@pytest.mark.parametrize("form", ["file:{folder}/{name}", "file://{folder}/{name}", "{folder}/{name}"])
def test_external_files_are_read_where_allowed_and_never_deleted(tmp_path: Path, form: str) -> None:
    world = make_world(tmp_path, has_key=True)
    expected = ids(in_new_process(world.table))
    externalise(world, form)
    before = world.content()
    errors = world.run("read", "changes", "expire", "compact", "orphans")
    assert isinstance(errors["read"], InvalidRequestError)
    assert KEY in str(errors["read"])
    allowed = FileStoreTable.open(world.table, options={KEY: f"file://{world.outside}"})
    assert ids(allowed) == expected
    allowed.compact(full=True)
    expire_snapshots(allowed, retention=EVERYTHING)
    assert ids(allowed) == expected
    assert world.content() == before


@pytest.mark.parametrize(
    "path",
    [
        "{folder}/empty/../data.parquet",
        "file:{folder}/empty/../data.parquet",
        "{folder}/empty/link/data.parquet",
        "s3://bucket/x.parquet",
        "file://host/etc/passwd",
        "outside/data.parquet",
        "../outside/data.parquet",
        "a\0b.parquet",
    ],
)
def test_external_paths_are_judged_by_where_they_lead(tmp_path: Path, path: str) -> None:
    world = make_world(tmp_path, has_key=True)
    (world.outside / "empty" / "link").symlink_to(world.outside)
    given = path.format(folder=world.outside)
    rewrite(world.table, entry=lambda record: record["_FILE"].update(_EXTERNAL_PATH=given))
    table = FileStoreTable.open(world.table, options={KEY: f"{world.outside}/empty"})
    before = world.content()
    with pytest.raises((CorruptDataError, InvalidRequestError)):
        table.to_arrow()
    for act in (lambda: table.compact(full=True), lambda: expire_snapshots(table, retention=EVERYTHING)):
        with contextlib.suppress(CorruptDataError, InvalidRequestError):
            act()
    assert world.content() == before


@pytest.mark.parametrize(
    "path", ["file:{outside}/index-0", "{outside}/index-0", "{outside}/../lake/db.db/x", "file:///{outside}/index-0"]
)
def test_external_index_files_are_not_read_unasked(tmp_path: Path, path: str) -> None:
    world = make_world(tmp_path, has_key=False)
    given = path.format(outside=world.outside)
    rewrite(world.table, index=lambda record: record.update(_EXTERNAL_PATH=given))
    errors = world.run("read", "expire", "orphans")
    assert isinstance(errors["read"], InvalidRequestError)


def test_spark_is_given_no_path_that_leads_out(tmp_path: Path) -> None:
    world = make_world(tmp_path, has_key=True)
    externalise(world, "file:{folder}/{name}")
    refused = open_from_options({"path": world.table}).store
    allowed = open_from_options({"path": world.table, KEY: str(world.outside)}).store
    for entry in allowed.live_files.of(allowed.snapshots.latest()).entries():
        place = (entry.bucket_id, entry.file)
        assert allowed.readable_path(*place) == f"{world.outside}/{entry.file.file_name}"
        with pytest.raises(InvalidRequestError, match=KEY):
            refused.readable_path(*place)


def test_a_table_cannot_allow_places_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=KEY):
        make_table(tmp_path, options={KEY: "/"})


def test_a_place_is_absolute(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    with pytest.raises(InvalidRequestError, match=f"{KEY}.*expected absolute folders"):
        FileStoreTable.open(table.path, options={KEY: "data"})


def test_a_table_that_is_a_link_is_not_dropped(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake")
    made = catalog.create_table("db.t", schema=rows_of(0).schema, primary_keys=["id"])
    made.write(rows_of(0))
    away = tmp_path / "away"
    Path(made.path).rename(away)
    Path(made.path).symlink_to(away)
    before = sorted(away.rglob("*"))
    with pytest.raises(InvalidRequestError, match=f"is a link to {away}"):
        catalog.drop_table("db.t")
    assert sorted(away.rglob("*")) == before
    assert Path(made.path).is_symlink()
    assert ids(catalog.load_table("db.t").store) == list(range(6))


def test_a_drop_follows_no_link_in_the_table(tmp_path: Path) -> None:
    world = make_world(tmp_path, has_key=True)
    Path(world.table, "bucket-7").symlink_to(world.outside)
    before = world.content()
    Catalog(tmp_path / "lake").drop_table("db.t")
    assert world.content() == before
    assert not Path(world.table).exists()
