"""Files that say that a tag exists: written after it, deleted before it, and no tags themselves."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.refs.tags import auto_tags
from lakelog.filestore.refs.tags.auto_tags import create_due_tags
from lakelog.filestore.refs.tags.tags import drop_tag, rename_tag, tags_of, write_tag
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, rollback
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.small_tables import UNSYNCED, in_new_process, make_table, rows_of

WANTED = {"write-only": "true", "tag.create-success-file": "true"}
NOW = 1_700_000_000_000


def new_table(folder: Path, **options: str) -> FileStoreTable:
    table = make_table(folder, options={**WANTED, **options})
    for batch in range(2):
        table.write(rows_of(batch))
    return table


def tag_at(table: FileStoreTable, name: str, snapshot_id: int, **how: int | bool) -> None:
    write_tag(table, name, table.snapshots.get(snapshot_id), **how)  # type: ignore[arg-type]  # keywords of a test


def files_of(table: FileStoreTable) -> dict[str, dict[str, int]]:
    folder = Path(table.path) / "tag" / "tag-success-file"
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*")}


def test_a_tag_gets_a_file_whose_creation_time_stays(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    tag_at(table, "nightly", 1, now_millis=NOW)
    assert files_of(table) == {"nightly_SUCCESS": {"creationTime": NOW, "modificationTime": NOW}}
    tag_at(table, "nightly", 2, replace=True, now_millis=NOW + 5)
    assert files_of(table) == {"nightly_SUCCESS": {"creationTime": NOW, "modificationTime": NOW + 5}}


def test_the_file_goes_with_its_tag(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    tag_at(table, "a", 1)
    rename_tag(table, "a", "b")
    assert files_of(table).keys() == {"b_SUCCESS"}
    drop_tag(table, "b")
    assert files_of(table) == {}
    tag_at(table, "c", 2)
    rollback(table, snapshot_id=1)
    assert files_of(table) == {}


def test_the_folder_of_the_files_is_no_tag(tmp_path: Path) -> None:
    """Paimon's writers make it in tables that lakelog reads, whatever the option says here."""
    table = new_table(tmp_path, **{"tag.create-success-file": "false"})
    tag_at(table, "a", 1)
    (tmp_path / "t" / "tag" / "tag-success-file").mkdir()
    assert table.snapshots.tags() == [tag.name for tag in tags_of(table)] == ["a"]
    assert table.snapshots.find_tag("success-file") is None
    expire_snapshots(table, retention=Retention(count_min=1, count_max=1, age_millis=0, limit=100))
    assert table.to_arrow(tag="a").num_rows
    with pytest.raises(InvalidRequestError, match="in the file of the folder tag-success-file"):
        tag_at(table, "success-file", 2)


def test_tags_of_lakelog_itself_have_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    tag_at(table, "lakelog-fork-1", 1)
    assert files_of(table) == {}


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_file_never_stands_for_a_tag_that_is_not_there(tmp_path: Path, after_effect: bool) -> None:
    """A process may be killed between any two calls of the store."""
    table = new_table(tmp_path)
    for step in itertools.count(1):
        dying = FaultyFileIO(UNSYNCED, fails_at=step, after_effect=after_effect)
        with contextlib.suppress(InjectedCrash):
            own = in_new_process(table.path, dying)
            tag_at(own, "a", 1)
            rename_tag(own, "a", "b")
            drop_tag(own, "b")
        fresh = in_new_process(table.path)
        assert {name.removesuffix("_SUCCESS") for name in files_of(table)} <= set(fresh.snapshots.tags())
        for name in fresh.snapshots.tags():
            drop_tag(fresh, name)
        if not dying.has_failed:
            assert step > 10
            return


def test_the_next_writer_completes_the_file_of_an_automatic_tag(tmp_path: Path) -> None:
    auto_tags._next.clear()
    table = new_table(tmp_path, **{"tag.automatic-creation": "process-time"})
    newest = table.snapshots.get(2)
    create_due_tags(table, newest)
    (name,) = table.snapshots.tags()
    file = tmp_path / "t" / "tag" / "tag-success-file" / f"{name}_SUCCESS"
    file.unlink()
    auto_tags._next.clear()  # a new process
    create_due_tags(table, newest)
    assert file.exists()
