"""Processes that commit, killed with SIGKILL at any time: what was acknowledged is there once, and work goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakelog.common.types import RowKind
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.table import FileStoreTable
from tests.filestore.processes import killed_process
from tests.filestore.processes.killed_process import schema_of
from tests.filestore.processes.zygote import Zygote, zygote
from tests.support.examples import in_full
from tests.support.tables.small_tables import in_new_process

GATE_KILLS = 15
FULL_KILLS = in_full(1_000)
STEPS_MAX = 8  # notes, two for a step that was acknowledged
SECONDS_MAX = 0.02
Rows = Counter[tuple[int, int]]


@dataclass(slots=True)
class Victim:
    """A table and the processes that work at it, one after the other; `rows` is what must be there."""

    table_path: str
    notes: Path
    has_key: bool
    rows: Rows = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    seen: dict[int, Rows] = field(default_factory=dict)

    def live_and_die(self, forks: Zygote, life: int, *, steps: int, seconds: float) -> None:
        """One process, from its first note until `seconds` after the note of number `steps`; then it is killed."""
        self.notes.unlink(missing_ok=True)
        pid = forks.fork(self.table_path, self.notes, life)
        while self._noted() < steps:  # a process that fails is seen at its end
            time.sleep(0.001)
        time.sleep(seconds)  # the time of the kill is the chance that this test is about
        os.kill(pid, signal.SIGKILL)
        assert forks.wait(pid) == signal.SIGKILL  # else it has failed, and said why
        self.events["kills"] += 1

    def _noted(self) -> int:
        return self.notes.read_bytes().count(b"\n") if self.notes.exists() else 0

    def check(self) -> None:
        """Follow the notes, and compare with what a new process reads."""
        begun = None
        for note in map(json.loads, self.notes.read_text().splitlines()):
            if "done" not in note:
                begun = note
                continue
            assert begun is not None
            self.events[f"{begun['what']} acknowledged"] += 1
            self.rows = self.after(begun)
            begun = None
        table = in_new_process(self.table_path)
        found = self.read(table)
        if begun is not None:
            self.events[f"killed within {begun['what']}"] += 1
            wanted = self.after(begun)
            assert found in (self.rows, wanted), (begun, found - self.rows, self.rows - found)
            self.events["unacknowledged, yet there"] += wanted != self.rows and found == wanted
            self.rows = found
        assert found == self.rows, (found - self.rows, self.rows - found)
        newest = table.snapshots.latest()
        if newest is not None:
            live = table.live_files.of(newest)
            assert newest.total_record_count == sum(entry.file.row_count for entry in live.entries())
            self.seen[newest.id] = found

    def check_history(self) -> None:
        """Living snapshots read as when they were the newest. The oldest is left out: its expiry may have begun."""
        table = in_new_process(self.table_path)
        for number in table.snapshots.ids()[1:]:
            if number in self.seen:
                assert self.read(table, number) == self.seen[number]
                self.events["snapshots read again"] += 1

    def read(self, table: FileStoreTable, snapshot_id: int | None = None) -> Rows:
        columns = table.to_arrow(snapshot_id=snapshot_id).to_pydict()
        return Counter(zip(columns["id"], columns["batch"], strict=True))

    def after(self, note: dict[str, object]) -> Rows:
        """The rows after a step."""
        what, given, kinds = note["what"], note["rows"], note["kinds"]
        assert isinstance(given, list)
        assert isinstance(kinds, list)
        if what not in ("write", "overwrite"):
            return self.rows
        rows = Counter(self.rows) if what == "write" else Counter[tuple[int, int]]()
        for (key, batch), kind in zip(given, kinds, strict=True):
            if self.has_key:
                for old in [row for row in rows if row[0] == key]:
                    del rows[old]
            if RowKind(kind).is_add:
                rows[key, batch] += 1
        return rows


def kill_often(kills: int) -> Counter[str]:
    """Kill processes at two tables in turn; gives what happened."""
    shared = Path("/dev/shm")
    rng = random.Random(kills)
    with (
        tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder,
        zygote(killed_process.__name__) as forks,
    ):
        victims = []
        for has_key in (True, False):
            path = f"{folder}/{has_key}/t"
            FileStoreTable.create(path, schema_of(has_key=has_key), LocalFileIO(sync_data=False))
            victims.append(Victim(path, Path(folder) / f"notes-{has_key}", has_key))
        for life in range(1, kills + 1):
            victim = victims[life % 2]
            steps = rng.randint(1, STEPS_MAX)
            victim.live_and_die(forks, life, steps=steps, seconds=rng.random() * SECONDS_MAX)
            victim.check()
            if life % 10 < 2:
                victim.check_history()
        return sum((victim.events for victim in victims), Counter[str]())


def test_what_killed_processes_had_acknowledged_is_there_once() -> None:
    events = kill_often(GATE_KILLS)
    assert events["kills"] == GATE_KILLS
    assert events["write acknowledged"] > 0


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_many_kills_lose_nothing() -> None:
    started = time.monotonic()
    events = kill_often(FULL_KILLS)
    print(f"{(time.monotonic() - started) / FULL_KILLS * 1000:.0f} ms a kill: {dict(sorted(events.items()))}")
    assert events["kills"] == FULL_KILLS
    for step in ("write", "overwrite", "compact", "expire"):
        assert events[f"{step} acknowledged"] > 0
        assert events[f"killed within {step}"] > 0
    assert events["unacknowledged, yet there"] > 0
    assert events["snapshots read again"] > 0
