"""Real processes at one table at the very same time: they meet, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.filestore.processes import busy_process
from tests.filestore.processes.busy_process import SCHEMA, keys_of
from tests.filestore.processes.zygote import zygote
from tests.support.tables.small_tables import in_new_process

ROUNDS_MAX = 20
OPTIONS = {
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "5",
    "commit.max-retries": "1000",
    "commit.max-retry-wait": "50 ms",
}


def run(
    folder: Path, roles: list[str], *, seconds: float, until: Collection[str], bucket: str = "2"
) -> tuple[str, list[Counter[str]]]:
    """Let processes work at a new table, in rounds of some seconds until all has happened that must.

    On a busy machine a process gets to one write in such a round, so later ones are longer. Gives the table's path, and
    what each process did.
    """
    table = FileStoreTable.create(
        folder / "t",
        build_schema(SCHEMA, primary_keys=["id"], options=OPTIONS | {"bucket": bucket}),
        LocalFileIO(sync_data=False),
    )
    notes = [folder / f"{number}-{role}" for number, role in enumerate(roles)]
    events: list[Counter[str]] = []
    with zygote(busy_process.__name__) as forks:
        for number_of_round in range(ROUNDS_MAX):
            seconds *= 1.1 if number_of_round > ROUNDS_MAX // 4 else 1
            pids = [forks.fork(role, table.path, number, seconds, notes[number]) for number, role in enumerate(roles)]
            assert [forks.wait(pid) for pid in pids] == [0] * len(roles)
            events = [Counter(json.loads(note.read_text())) for note in notes]
            total = sum(events, Counter[str]())
            if all(total[name] > 0 for name in until):
                print(f"{seconds} s: {dict(sorted(total.items()))}")
                return table.path, events
    raise AssertionError(f"{ROUNDS_MAX} rounds of {seconds} s did not see all of {until}: {events}")


def check_last_writes(path: str, roles: list[str], events: list[Counter[str]]) -> None:
    """The last write of each writer is there, and nothing else."""
    table = in_new_process(path)
    rows = table.to_arrow().to_pydict()
    expected = {
        key: done["written"]
        for number, (role, done) in enumerate(zip(roles, events, strict=True))
        if role in ("write", "stream")
        for key in keys_of(number)
    }
    assert dict(zip(rows["id"], rows["batch"], strict=True)) == expected
    assert len(rows["id"]) == len(expected)
    newest = table.snapshots.latest()
    assert newest is not None
    live = table.live_files.of(newest)
    assert newest.total_record_count == sum(entry.file.row_count for entry in live.entries())


def test_processes_at_one_table_at_once_lose_nothing(tmp_path: Path) -> None:
    roles = ["write", "write", "compact", "compact", "expire", "read"]
    path, events = run(tmp_path, roles, seconds=2, until=("conflicts", "races lost", "expired", "read"))
    check_last_writes(path, roles, events)


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_readers_that_give_their_rows_once_are_written_beside_busy_writers(tmp_path: Path, bucket: str) -> None:
    roles = ["stream", "stream", "write"]
    path, events = run(tmp_path, roles, seconds=1, until=("overtaken", "races lost"), bucket=bucket)
    check_last_writes(path, roles, events)


@pytest.mark.full
def test_a_minute_of_writers_and_compactors_loses_nothing(tmp_path: Path) -> None:
    roles = ["write", "write", "compact", "compact"]
    path, events = run(tmp_path, roles, seconds=60, until=("conflicts", "races lost", "compacted"))
    check_last_writes(path, roles, events)
    table = in_new_process(path)
    ids = table.snapshots.ids()
    kinds = Counter(table.snapshots.get(number).commit_kind for number in ids)
    assert ids == list(range(1, len(ids) + 1))
    assert kinds[CommitKind.APPEND] == sum(done["written"] for done in events)  # each acknowledged write once


@pytest.mark.full
def test_readers_beside_writers_and_an_expiry_see_whole_writes(tmp_path: Path) -> None:
    roles = ["write", "write", "expire", "read", "read"]
    path, events = run(tmp_path, roles, seconds=20, until=("expired", "read", "races lost"))
    check_last_writes(path, roles, events)
