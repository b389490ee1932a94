"""Tags: created, read, replaced, renamed, dropped; which files they keep."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.filestore.expire.retention_rules import Retention
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.refs.tags.tags import (
    drop_tag,
    expire_tags,
    rename_tag,
    tag_beside,
    tags_of,
    write_tag,
)
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash, Result
from tests.support.tables.paimon_tables import expected, unpack
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import UNSYNCED, in_new_process, make_table, rows_of

ONE = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
DAY = timedelta(days=1)


def with_snapshots(folder: Path, count: int) -> FileStoreTable:
    """A table with so many snapshots; a third one compacts."""
    table = make_table(folder, options={"write-only": "true", "compaction.min.file-num": "2"})
    for batch in range(count):
        table.write(rows_of(batch))
        if batch % 3 == 2:
            table.compact(full=True)
    return table


def tag_at(table: FileStoreTable, name: str, snapshot_id: int, *, kept: timedelta | None = None) -> None:
    write_tag(table, name, table.snapshots.get(snapshot_id), time_retained=kept)


def copied(table: FileStoreTable, folder: Path) -> FileStoreTable:
    """A copy of the table, as a new process sees it."""
    return in_new_process(str(shutil.copytree(table.path, folder)))


def rows(table: FileStoreTable, **which: object) -> list[dict[str, object]]:
    found = table.to_arrow(**which)  # type: ignore[arg-type]  # the keywords of a test
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_a_tag_reads_what_its_snapshot_held_after_it_has_expired(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 5)
    expected = rows(table, snapshot_id=2)
    tag_at(table, "t", 2)

    expire_snapshots(table, retention=ONE)

    assert 2 not in table.snapshots.ids()
    assert rows(in_new_process(table.path), tag="t") == expected


def test_a_tag_file_is_the_snapshot_with_the_keys_of_paimon_for_a_lifetime(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 1)
    created = datetime(2026, 1, 31, 12, 30, 5, 250_000)
    write_tag(table, "t", table.snapshots.get(1), time_retained=DAY, now_millis=int(created.timestamp() * 1000))

    text = json.loads(Path(table.paths.tag("t")).read_text())

    snapshot = json.loads(Path(table.paths.snapshot(1)).read_text())
    assert {key: text[key] for key in snapshot} == snapshot
    assert text["tagCreateTime"] == [2026, 1, 31, 12, 30, 5, 250_000_000]
    assert text["tagTimeRetained"] == 86400.0
    assert table.snapshots.tag("t").expires_at == created + DAY


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ([2026, 1, 31, 12, 30], datetime(2026, 1, 31, 12, 30)),
        ([2026, 1, 31, 12, 30, 5], datetime(2026, 1, 31, 12, 30, 5)),
        ("2026-01-31T12:30:05", datetime(2026, 1, 31, 12, 30, 5)),
    ],
)
def test_create_times_are_read_as_java_shortens_them(tmp_path: Path, time: object, expected: datetime) -> None:
    table = with_snapshots(tmp_path, 1)
    text = json.loads(table.snapshots.get(1).to_json(tagCreateTime=time, tagTimeRetained=3600))
    UNSYNCED.write_bytes(table.paths.tag("t"), json.dumps(text).encode())

    assert table.snapshots.tag("t").create_time == expected
    assert table.snapshots.tag("t").time_retained == timedelta(hours=1)


@pytest.mark.parametrize(
    "more", [{"tagCreateTime": [2026]}, {"tagCreateTime": [2026, 13, 1]}, {"tagTimeRetained": "x"}, {"lakelogTag": 5}]
)
def test_a_tag_file_with_other_values_is_damaged(tmp_path: Path, more: dict[str, object]) -> None:
    table = with_snapshots(tmp_path, 1)
    UNSYNCED.write_bytes(table.paths.tag("t"), table.snapshots.get(1).to_json(**more).encode())

    with pytest.raises(CorruptDataError, match="tag-t is damaged"):
        table.snapshots.tag("t")


@pytest.mark.parametrize("name", ["5", "²", "", "a/b", "..", " t", "a\nb", "x" * 300])
def test_names_that_no_tag_can_have_are_refused(tmp_path: Path, name: str) -> None:
    table = with_snapshots(tmp_path, 1)

    with pytest.raises(InvalidRequestError, match="tag"):
        tag_at(table, name, 1)


def test_a_numeric_tag_of_another_engine_is_read(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 2)
    UNSYNCED.write_bytes(table.paths.tag("5"), table.snapshots.get(1).to_json().encode())

    assert table.snapshots.tagged("5").id == 1


def test_a_tag_is_created_once(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 2)
    tag_at(table, "t", 1)

    with pytest.raises(ConflictError, match="has a tag 't' already, of snapshot 1"):
        tag_at(table, "t", 2)
    assert table.snapshots.tagged("t").id == 1


def test_a_replaced_tag_frees_what_it_alone_kept(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 5)
    tag_at(table, "t", 2)
    expire_snapshots(table, retention=ONE)
    newest = table.snapshots.latest()
    assert newest is not None

    write_tag(table, "t", newest, replace=True)

    assert table.snapshots.tagged("t") == newest
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_only_an_existing_tag_is_replaced(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 1)

    with pytest.raises(NotFoundError, match="has no tag 't'"):
        write_tag(table, "t", table.snapshots.get(1), replace=True)


def test_a_tag_of_a_snapshot_before_the_one_that_an_expiry_keeps_is_refused_with_its_hint(tmp_path: Path) -> None:
    """An expiry may be deleting it. A fast-forward of another engine brings the hint of the branch, too."""
    table = with_snapshots(tmp_path, 3)
    first, second, *_ = table.snapshots.ids()
    table.snapshots.write_earliest_hint(second)
    with pytest.raises(NotFoundError, match=f"snapshot {first} .* before snapshot {second}, which .*EARLIEST names"):
        tag_at(table, "t", first)
    assert table.snapshots.tags() == []


def test_a_tag_of_an_expired_snapshot_is_made_from_another_tag_alone(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 4)
    first, second = table.snapshots.get(1), table.snapshots.get(2)
    tag_at(table, "t", 1)
    expire_snapshots(table, retention=ONE)

    write_tag(table, "same", first)
    with pytest.raises(NotFoundError, match=r"snapshot 2 of .* has expired"):
        write_tag(table, "lost", second)

    assert table.snapshots.tags() == ["same", "t"]


def test_a_renamed_tag_keeps_its_snapshot(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 2)
    tag_at(table, "old", 1, kept=DAY)
    before = table.snapshots.tag("old")

    rename_tag(table, "old", "new")

    after = table.snapshots.tag("new")
    assert table.snapshots.tags() == ["new"]
    assert (after.snapshot, after.expires_at) == (before.snapshot, before.expires_at)


def test_a_tag_takes_no_name_that_is_taken(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 1)
    tag_at(table, "a", 1)
    tag_at(table, "b", 1)

    with pytest.raises(ConflictError, match="'b' already"):
        rename_tag(table, "a", "b")
    assert table.snapshots.tags() == ["a", "b"]


def test_a_tag_that_another_engine_renamed_is_read(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 2)
    tag_at(table, "old", 1)
    Path(table.paths.tag("old")).rename(table.paths.tag("new"))

    assert table.snapshots.tagged("new").id == 1


@pytest.mark.parametrize("is_copy", [True, False])
def test_swapped_tag_files_are_found(tmp_path: Path, is_copy: bool) -> None:
    table = with_snapshots(tmp_path, 2)
    tag_at(table, "a", 1)
    tag_at(table, "b", 2)
    first, second = Path(table.paths.tag("a")), Path(table.paths.tag("b"))
    texts = first.read_text(), second.read_text()
    first.write_text(texts[1])
    if not is_copy:
        second.write_text(texts[0])

    with pytest.raises(CorruptDataError, match="it is the file of tag 'b'"):
        table.snapshots.tagged("a")


def test_a_dropped_tag_frees_what_nothing_else_needs_and_nothing_more(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 7)
    for at in (1, 2, 4, 6):
        tag_at(table, f"t{at}", at)
    expire_snapshots(table, retention=ONE)
    for name in ("t2", "t4", "t1", "t6"):
        expected = {tag.name: rows(table, tag=tag.name) for tag in tags_of(table) if tag.name != name}
        newest = rows(table)

        drop_tag(table, name)

        assert files_on_disk(table.path) == referenced_files(table.path)
        fresh = in_new_process(table.path)
        assert {tag.name: rows(fresh, tag=tag.name) for tag in tags_of(fresh)} == expected
        assert rows(fresh) == newest


def test_a_drop_deletes_no_file_while_another_tag_is_unreadable(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 4)  # paimon#6479: files that the unreadable one needs were deleted
    for at in (1, 2):
        tag_at(table, f"t{at}", at)
    expire_snapshots(table, retention=ONE)
    Path(table.paths.manifest(table.snapshots.tagged("t2").base_manifest_list)).unlink()
    before = files_on_disk(table.path)

    drop_tag(in_new_process(table.path), "t1")

    assert files_on_disk(table.path) == before


def test_a_tag_that_misses_files_can_be_dropped(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 4)
    tag_at(table, "t", 1)
    expire_snapshots(table, retention=ONE)
    Path(table.paths.manifest(table.snapshots.tagged("t").delta_manifest_list)).unlink()

    drop_tag(in_new_process(table.path), "t")

    assert table.snapshots.tags() == []


def test_a_tag_that_was_replaced_is_read_again_from_memory_or_not(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 3)
    tag_at(table, "t", 1)
    old = time.time() - 100
    os.utime(table.paths.tag("t"), (old, old + 0.001))  # so old that it is kept in memory
    assert [tag.snapshot.id for tag in tags_of(table)] == [1]
    assert [tag.snapshot.id for tag in tags_of(table)] == [1]

    write_tag(table, "t", table.snapshots.get(2), replace=True)

    assert [tag.snapshot.id for tag in tags_of(table)] == [2]


def test_a_young_tag_is_not_kept_in_memory(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 3)
    tag_at(table, "t", 1)
    path = Path(table.paths.tag("t"))
    assert [tag.snapshot.id for tag in tags_of(table)] == [1]
    times = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"commitUser"', b'"commitUsex"'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # within one tick of the clock

    with pytest.raises(CorruptDataError):
        tags_of(table)


def test_neighbours_are_by_snapshot(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 3)
    for name, at in (("z", 1), ("b", 2), ("a", 3)):
        tag_at(table, name, at)

    assert [tag.name for tag in tags_of(table)] == ["z", "b", "a"]
    before, behind = (tag_beside(table, "b", is_next=is_next) for is_next in (False, True))
    assert before is not None
    assert behind is not None
    assert (before.name, behind.name) == ("z", "a")
    assert tag_beside(table, "z", is_next=False) is None
    assert tag_beside(table, "a", is_next=True) is None


def test_a_tag_whose_time_is_over_expires_with_its_files(tmp_path: Path) -> None:
    table = with_snapshots(tmp_path, 4)
    for name, at, kept in (("short", 1, DAY), ("long", 2, 9 * DAY), ("forever", 3, None)):
        write_tag(table, name, table.snapshots.get(at), time_retained=kept, now_millis=0)
    expire_snapshots(table, retention=ONE)

    assert expire_tags(table, now_millis=int(2 * DAY.total_seconds() * 1000)) == ["short"]

    assert table.snapshots.tags() == ["forever", "long"]
    assert files_on_disk(table.path) == referenced_files(table.path)


def test_an_expiry_that_was_cut_off_leaves_no_snapshot_to_tag(tmp_path: Path) -> None:
    template = with_snapshots(tmp_path, 4)

    def one(dies_at: int) -> bool:
        table = copied(template, tmp_path / str(dies_at))
        oldest = table.snapshots.get(1)
        dying = FaultyFileIO(UNSYNCED, fails_at=dies_at)
        with contextlib.suppress(InjectedCrash):
            expire_snapshots(in_new_process(table.path, dying), retention=ONE)
        fresh = in_new_process(table.path)
        try:
            write_tag(fresh, "t", oldest)
        except NotFoundError:
            return dying.has_failed
        assert len(rows(fresh, tag="t")) == 6
        return dying.has_failed

    step = 1
    while one(step):
        step += 1
    assert step > 20


def test_a_tag_that_is_made_while_an_expiry_runs_keeps_its_files_or_fails(tmp_path: Path) -> None:
    """An expiry comes between any two calls of the creation, and the creation between any two of the expiry."""

    template = with_snapshots(tmp_path, 4)

    def interleaved(folder: Path, at: int, *, expiry_first: bool) -> bool:
        table = copied(template, folder)
        oldest = table.snapshots.get(1)

        def tag() -> None:
            with contextlib.suppress(NotFoundError):
                write_tag(in_new_process(table.path), "t", oldest)

        def expire() -> None:
            expire_snapshots(in_new_process(table.path), retention=ONE)

        io = Interrupted(UNSYNCED, at, tag if expiry_first else expire)
        opened = in_new_process(table.path, io)
        if expiry_first:
            expire_snapshots(opened, retention=ONE)
        else:
            with contextlib.suppress(NotFoundError):
                write_tag(opened, "t", oldest)
        fresh = in_new_process(table.path)
        if fresh.snapshots.tags():
            assert len(rows(fresh, tag="t")) == 6
        return io.has_interrupted

    for expiry_first in (True, False):
        at = 1
        while interleaved(tmp_path / f"{expiry_first}{at}", at, expiry_first=expiry_first):
            at += 1
        assert at > 5


class Interrupted(FaultyFileIO):
    """A FileIO before whose call `at` another action runs."""

    def __init__(self, inner: FileIO, at: int, act: Callable[[], None]) -> None:
        super().__init__(inner)
        self.at = at
        self.act = act

    @property
    def has_interrupted(self) -> bool:
        return len(self.calls) >= self.at

    def _call(self, name: str, act: Callable[[], Result]) -> Result:
        if len(self.calls) + 1 == self.at:
            self.calls.append(name)
            self.act()
            return act()
        return super()._call(name, act)


def crash_steps(folder: Path, act: Callable[[FileStoreTable], object], check: Callable[[FileStoreTable], None]) -> int:
    """Run `act` with a crash at each of its calls, before and after their effect; gives the number of calls."""
    template = with_snapshots(folder, 5)
    tag_at(template, "t", 2)
    tag_at(template, "u", 3)
    expire_snapshots(template, retention=ONE)
    step = 1
    while True:
        is_over = False
        for after_effect in (False, True):
            table = copied(template, folder / f"{step}{after_effect}")
            dying = FaultyFileIO(UNSYNCED, fails_at=step, after_effect=after_effect)
            with contextlib.suppress(InjectedCrash):
                act(in_new_process(table.path, dying))
            is_over = not dying.has_failed
            check(in_new_process(table.path))
        if is_over:
            return step
        step += 1


def swept(table: FileStoreTable) -> None:
    """After a clean nothing is left that nothing names, and all tags can be read."""
    for tag in table.snapshots.tags():
        rows(table, tag=tag)
    remove_orphan_files(table, older_than_millis=-60_000, dry_run=False, allow_young=True)
    assert files_on_disk(table.path) == referenced_files(table.path)
    assert not list(Path(table.paths.tag_dir).glob(".*"))
    for tag in table.snapshots.tags():
        rows(table, tag=tag)


def test_a_drop_can_be_cut_off_anywhere(tmp_path: Path) -> None:
    def check(table: FileStoreTable) -> None:
        if "t" in table.snapshots.tags():
            assert rows(table, tag="t")
        swept(table)

    assert crash_steps(tmp_path, lambda table: drop_tag(table, "t"), check) > 5


def test_a_creation_and_a_replacement_can_be_cut_off_anywhere(tmp_path: Path) -> None:
    def create(table: FileStoreTable) -> None:
        write_tag(table, "v", table.snapshots.tagged("t"))

    def replace(table: FileStoreTable) -> None:
        write_tag(table, "t", table.snapshots.tagged("u"), replace=True)

    assert crash_steps(tmp_path / "create", create, swept) > 5
    assert crash_steps(tmp_path / "replace", replace, swept) > 5


def test_a_rename_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    def check(table: FileStoreTable) -> None:
        if "t" in table.snapshots.tags():
            rename_tag(table, "t", "new")
        assert table.snapshots.tags() == ["new", "u"]
        swept(table)

    assert crash_steps(tmp_path, lambda table: rename_tag(table, "t", "new"), check) > 3


def test_tags_of_flink_are_listed_created_beside_and_dropped(tmp_path: Path) -> None:
    table = FileStoreTable.open(unpack("tags_branches", tmp_path) / "db.db" / "tagged", UNSYNCED)
    told = {row["tag_name"]: row["snapshot_id"] for row in expected("tags_branches", "tagged", "tags")}
    newest = rows(table)

    assert {tag.name: tag.snapshot.id for tag in tags_of(table)} == told
    write_tag(table, "same", table.snapshots.tagged("t1"))
    for name in ("t1", "t2"):
        drop_tag(table, name)

    fresh = in_new_process(table.path)
    assert rows(fresh, tag="same") == sorted(expected("tags_branches", "tagged", "tag-t1"), key=lambda row: row["id"])
    assert rows(fresh) == newest
    assert len(rows(fresh, branch="b1")) == len(expected("tags_branches", "tagged", "branch-b1"))
