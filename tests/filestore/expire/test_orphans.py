"""Orphans go, and nothing else: whatever lives in the folder, and whoever writes meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.expire.orphans import Orphans
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as changes_of
from lakelog.filestore.verbs import drop_partitions, expire_snapshots, remove_orphan_files
from lakelog.filestore.write.write import write_rows
from tests.support.examples import examples
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.referenced import files_on_disk, referenced_files
from tests.support.tables.small_tables import (
    SCHEMA,
    UNSYNCED,
    altered_by_others,
    content,
    in_new_process,
    make_table,
    prepare_batch,
    rows_of,
)

DAY = 24 * 3_600_000
EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)


def make_old(table: FileStoreTable, *, days: int = 2) -> None:
    """Date all files and folders back."""
    changed = Path(table.path).stat().st_mtime - days * 86_400
    for path in [Path(table.path), *Path(table.path).rglob("*")]:
        os.utime(path, (changed, changed))


def clean(table: FileStoreTable) -> Orphans:
    """Remove what is an orphan, however young."""
    return remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True)


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Three batches and files that were never committed, all two days old."""
    table = make_table(tmp_path)
    for batch in range(3):
        table.write(rows_of(batch))
    prepare_batch(table, 9)
    for name in (
        "manifest/manifest-lost-0",
        "manifest/.manifest-x.1.tmp",
        "snapshot/.snapshot-9.1.tmp",
        "index/index-x-0",
        f"lakelog/line/5-2088-{'a' * 32}",  # of a commit whose handle was let go
    ):
        (Path(table.path) / name).parent.mkdir(parents=True, exist_ok=True)
        (Path(table.path) / name).write_bytes(b"lost")
    make_old(table)
    return table


def test_a_dry_run_names_orphans_and_deletes_nothing(table: FileStoreTable) -> None:
    on_disk = files_on_disk(table.path)
    found = remove_orphan_files(table)
    assert found.is_dry_run
    assert files_on_disk(table.path) == on_disk
    names = {Path(file.path).name for file in found.files}
    assert on_disk - names == referenced_files(table.path)
    assert ".snapshot-9.1.tmp" in names
    assert found.size_bytes == sum(Path(file.path).stat().st_size for file in found.files)


def test_orphans_are_deleted_and_rows_are_not(table: FileStoreTable) -> None:
    before = content(table)
    found = remove_orphan_files(table)
    assert remove_orphan_files(table, dry_run=False).files == found.files
    assert files_on_disk(table.path) == referenced_files(table.path)
    assert table.commit_line.places() == []
    assert content(in_new_process(table.path)) == before
    assert remove_orphan_files(table, dry_run=False).files == ()


def test_young_files_stay_and_a_short_age_must_be_asked_for(table: FileStoreTable) -> None:
    entries = prepare_batch(table, 5)
    remove_orphan_files(table, dry_run=False)
    append_commit(table, user="job", identifier=0, digest=None, entries=entries)
    assert content(in_new_process(table.path))[20] == 5
    with pytest.raises(InvalidRequestError, match="--allow-young"):
        remove_orphan_files(table, older_than_millis=3_599_999)


def test_a_table_with_a_log_is_refused_here(tmp_path: Path) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    (tmp_path / "t" / "schema" / "schema-0").write_text(altered_by_others(schema, **{"log.system": "kafka"}))
    table = FileStoreTable.open(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match="lakelog table remove-orphan-files"):
        remove_orphan_files(table)


def test_what_is_named_elsewhere_stays(table: FileStoreTable) -> None:
    lost = {Path(file.path).name for file in remove_orphan_files(table).files if "/bucket-" in file.path}
    assert lost
    remove_orphan_files(table, dry_run=False, named_elsewhere=lambda: lost)
    assert lost <= files_on_disk(table.path)


@pytest.mark.parametrize(
    ("what", "damage"),
    [
        ("manifest-list", "gone"),
        ("manifest", "cut"),
        ("oldest", "gone"),
        pytest.param("manifest-list", "cut", marks=pytest.mark.full),
        pytest.param("manifest", "gone", marks=pytest.mark.full),
        pytest.param("tag", "cut", marks=pytest.mark.full),
        pytest.param("tag", "gone", marks=pytest.mark.full),
        pytest.param("oldest", "cut", marks=pytest.mark.full),
    ],
)
def test_damage_stops_the_removal(table: FileStoreTable, what: str, damage: str) -> None:
    """Whatever names files must be read: what it names cannot be distinguished from orphans."""
    snapshot = table.snapshots.get(1 if what == "oldest" else 2)
    name = snapshot.delta_manifest_list
    if what == "manifest":
        (manifest,) = table.manifests.read_list(name)
        name = manifest.file_name
    if what == "tag":
        write_tag(table, "t", snapshot)
        for number in (1, 2):
            Path(table.paths.snapshot(number)).unlink()
    path = Path(table.paths.manifest(name))
    path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:-20])
    make_old(table)
    on_disk = files_on_disk(table.path)
    table = in_new_process(table.path)
    if (what, damage) == ("oldest", "gone"):  # as an expiry leaves it that was cut off: no younger one needs it
        remove_orphan_files(table, dry_run=False)
        assert content(in_new_process(table.path))[0] == 0
        return
    with pytest.raises(CorruptDataError, match=r"names a missing file|damaged|not readable|manifest-"):
        remove_orphan_files(table, dry_run=False)
    assert files_on_disk(table.path) == on_disk


def test_empty_folders_of_buckets_and_partitions_go_when_they_are_old(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
    schema = build_schema(columns, primary_keys=["day", "id"], partition_keys=["day"], options={"bucket": "1"})
    table = FileStoreTable.create(tmp_path / "t", schema, UNSYNCED)
    for day in ("a", "b"):
        table.write(pa.table({"day": [day], "id": [1]}, schema=columns))
    drop_partitions(table, "day = 'a'")
    expire_snapshots(table, retention=EVERYTHING)
    odd = Path(table.path) / "day=c" / "notes"
    odd.mkdir(parents=True)
    assert remove_orphan_files(table, dry_run=False).folders == ()
    make_old(table)
    emptied = (f"{table.path}/day=a/bucket-0", f"{table.path}/day=a")
    assert remove_orphan_files(table).folders == emptied
    assert remove_orphan_files(table, dry_run=False).folders == emptied
    assert odd.exists()
    table.write(pa.table({"day": ["a"], "id": [2]}, schema=columns))
    assert in_new_process(table.path).to_arrow().num_rows == 2


def test_a_removal_that_is_cut_off_is_taken_up_by_the_next(
    table: FileStoreTable, request: pytest.FixtureRequest
) -> None:
    before = content(table)
    io = FaultyFileIO(UNSYNCED)
    fails_at = 1
    has_failed = True
    while has_failed:
        dying = in_new_process(table.path, io)
        io.is_dead, io.fails_at = False, len(io.calls) + fails_at
        try:
            remove_orphan_files(dying, dry_run=False)
            has_failed = False
        except InjectedCrash:
            assert content(in_new_process(table.path)) == before
        io.is_dead = False
        fails_at += 1 if request.config.getoption("--full") else 7
    assert fails_at > 20
    assert files_on_disk(table.path) == referenced_files(table.path)
    assert content(in_new_process(table.path)) == before


class Meanwhile(FaultyFileIO):
    """Somebody else acts right before a call."""

    act: Callable[[], None] | None = None

    def _call(self, name: str, act: Callable[[], object]) -> object:  # type: ignore[override]  # as generic there
        self.calls.append(name)
        if len(self.calls) == self.fails_at and self.act is not None:
            self.act()
        return act()


@pytest.mark.parametrize("what", ["commit of old files", "commit of young files", "expiry"])
def test_nothing_is_lost_to_a_removal_whoever_acts_meanwhile(
    tmp_path: Path, what: str, request: pytest.FixtureRequest
) -> None:
    """Somebody acts before calls of the removal, in turn. Old files must be committed before its last look."""
    at, last, step = 1, 1, 1 if request.config.getoption("--full") else 23
    while at <= last:
        table = make_table(tmp_path / str(at))
        for batch in range(3):
            table.write(rows_of(batch))
        entries = prepare_batch(table, 3)
        make_old(table)
        if what == "commit of young files":
            entries = prepare_batch(table, 3)

        def act(table: FileStoreTable = table, entries: list[ManifestEntry] = entries) -> None:
            other = FileStoreTable.open(table.path, UNSYNCED)
            if what == "expiry":
                expire_snapshots(other, retention=EVERYTHING)
            else:
                append_commit(other, user="job", identifier=0, digest=None, entries=entries)

        io = Meanwhile(UNSYNCED)
        removing = in_new_process(table.path, io)
        before = len(io.calls)
        io.fails_at, io.act = before + at, act
        remove_orphan_files(removing, dry_run=False)
        calls = io.calls[before:]
        last = len(calls)
        if what == "commit of old files":  # the last read before the deletion looks for a snapshot behind the newest
            looks = takewhile(lambda name: not name.startswith("delete"), calls)
            last = max(number for number, name in enumerate(looks, 1) if name == "read_bytes")
            if at > last:
                break
        left = in_new_process(table.path)
        assert content(left)[6] == 2
        if what != "expiry":
            assert content(left)[12] == 3
        at += step
    assert last > 20


# Histories.

STEPS = st.lists(
    st.sampled_from(["write", "write", "write", "compact", "tag", "untag", "branch", "expire", "lose", "die", "clean"]),
    min_size=4,
    max_size=14,
)


def write_tag(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    path = Path(table.paths.tag(name))
    path.parent.mkdir(exist_ok=True)
    path.write_text(snapshot.to_json())


def make_branch(table: FileStoreTable, name: str, snapshot: Snapshot) -> None:
    """A branch as Paimon makes it from a tag, with a commit of its own."""
    folder = Path(table.path) / "branch" / f"branch-{name}"
    for kind, file in (("schema", "schema-0"), ("snapshot", f"snapshot-{snapshot.id}")):
        (folder / kind).mkdir(parents=True)
        shutil.copy(Path(table.path) / kind / file, folder / kind / file)
    branch = FileStoreTable.open(table.path, UNSYNCED, branch=name)
    live = branch.live_files.of(branch.snapshots.latest())
    entries = write_rows(
        table, rows_of(50), first_sequence=live.next_sequence
    ).entries  # its files are in the table's folders
    append_commit(branch, user="branch", identifier=0, digest=None, entries=entries)


class Play:
    """A table and what each of its snapshots, tags, branches and changelogs has shown."""

    def __init__(self, folder: str, options: dict[str, str]) -> None:
        base = {"num-sorted-run.compaction-trigger": "3", "manifest.merge-min-count": "3"}
        self.table = make_table(folder, options=base | options)
        self.keeps_deltas = "changelog.num-retained.min" in options
        self.batch = self.named = 0
        self.rows: dict[object, dict[int, int]] = {}
        self.changes: dict[int, list[dict[str, object]]] = {}

    def _changes(self, number: int) -> list[dict[str, object]]:
        batches = changes_of(self.table, after=number - 1, up_to=number, source=ChangeSource.DELTA)
        return sorted((row for batch in batches for row in batch.to_pylist()), key=str)

    def step(self, what: str) -> None:
        self.table = in_new_process(self.table.path)
        newest = self.table.snapshots.latest()
        match what:
            case "write":
                self.table.write(rows_of(self.batch))
                self.batch += 1
            case "compact":
                self.table.compact(full=True)
            case "lose":
                prepare_batch(self.table, 40 + self.batch)
            case "die":
                self._die()
            case "expire":
                retention = Retention(count_min=1, count_max=2, age_millis=0, limit=100)
                expire_snapshots(self.table, retention=retention)
            case "clean":
                clean(self.table)
            case "untag":
                for tag in self.table.snapshots.tags()[:1]:
                    Path(self.table.paths.tag(tag)).unlink()
                    del self.rows[f"tag {tag}"]
            case "tag" | "branch" if newest is not None:
                self.named += 1  # a name of a tag that was deleted does not come again
                name = f"n{self.named}"
                if what == "tag":
                    write_tag(self.table, name, newest)
                else:
                    make_branch(self.table, name, newest)
                self.rows[f"{what} {name}"] = content(self._view(f"{what} {name}"))  # type: ignore[arg-type]
        for number in self.table.snapshots.ids():
            if number not in self.rows:
                self.rows[number] = self._content(number)
                self.changes[number] = self._changes(number)

    def _die(self) -> None:
        """An expiry that is cut off somewhere."""
        io = FaultyFileIO(UNSYNCED)
        dying = in_new_process(self.table.path, io)
        io.fails_at = len(io.calls) + 12 + 7 * self.batch
        with contextlib.suppress(InjectedCrash):
            expire_snapshots(dying, retention=EVERYTHING)
        self.table = in_new_process(self.table.path)

    def _view(self, key: str) -> object:
        kind, _, name = key.partition(" ")
        if kind == "branch":
            return FileStoreTable.open(self.table.path, UNSYNCED, branch=name)
        return _Tagged(self.table, name)

    def _content(self, key: object) -> dict[int, int]:
        if isinstance(key, int):
            rows = self.table.to_arrow(snapshot_id=key).to_pydict()
            return dict(zip(rows["id"], rows["batch"], strict=True))
        return content(self._view(str(key)))  # type: ignore[arg-type]  # either has to_arrow

    def check(self) -> None:
        """What lives is as it was, and after a last expiry and cleaning nothing else is in the folder."""
        self.table = in_new_process(self.table.path)
        expire_snapshots(self.table, retention=Retention(count_min=1, count_max=2, age_millis=0, limit=100))
        clean(self.table)
        self.table = in_new_process(self.table.path)
        living = set(self.table.snapshots.ids())
        for key, rows in self.rows.items():
            if not isinstance(key, int) or key in living:
                assert self._content(key) == rows, key
        if self.keeps_deltas:
            for number, changes in self.changes.items():
                assert self._changes(number) == changes, number
        assert files_on_disk(self.table.path) == referenced_files(self.table.path, keeps_deltas=self.keeps_deltas)


class _Tagged:
    def __init__(self, table: FileStoreTable, tag: str) -> None:
        self._table, self._tag = table, tag

    def to_arrow(self) -> pa.Table:
        return self._table.to_arrow(tag=self._tag)


def played(steps: list[str], *, keeps_changes: bool) -> None:
    options = {"changelog.num-retained.min": "1000", "changelog.num-retained.max": "2147483647"}
    with tempfile.TemporaryDirectory() as folder:
        play = Play(folder, options if keeps_changes else {})
        for step in ["write", *steps]:
            play.step(step)
        play.check()


@pytest.mark.parametrize("keeps_changes", [False, True])
def test_after_expiry_and_cleaning_the_folder_holds_what_lives_and_no_more(keeps_changes: bool) -> None:
    steps = "write tag write write branch lose write die tag expire compact untag clean lose write expire write"
    played(steps.split(), keeps_changes=keeps_changes)


@pytest.mark.full
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, keeps_changes=st.booleans())
def test_so_it_is_after_any_history(steps: list[str], keeps_changes: bool) -> None:
    played(steps, keeps_changes=keeps_changes)
