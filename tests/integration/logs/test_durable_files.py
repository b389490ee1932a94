"""Files are durable before a log names them: of a writer, a stream, and a statement, on a real broker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Table
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.statements import write_parts
from tests.integration.logs.test_writer import KINDS, made, put, rows, write_log
from tests.support.logs.local_writer import LocalWriter
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

IDS = list(range(12))  # of all buckets


class Disk:
    """What was made durable, and what was not when a transaction was about to be committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, table: Table) -> None:
        self.synced: set[int] = set()
        self.early: list[str] = []
        self.looks = 0
        self._root = Path(table.path)
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._note)

    def _note(self, descriptor: int) -> None:
        self._sync(descriptor)
        self.synced.add(os.fstat(descriptor).st_ino)

    def look(self, step: Step, _user: str, _identifier: int | None, _bucket: int | None) -> None:
        if step is Step.COMMIT:
            self.looks += 1
            folders = list(self._root.glob("bucket-*"))
            found = [self._root, *folders, *(path for folder in folders for path in folder.iterdir())]
            self.early += [str(path) for path in found if path.stat().st_ino not in self.synced]


def write(table: Table, observe: StepObserver) -> None:
    log = write_log(table, observe=observe)
    for value in (1, 2):
        put(log, table, IDS, value)
    log.close()


def stream(table: Table, observe: StepObserver) -> None:
    writer = LocalWriter(table, "stream", observe)
    for identifier in (0, 1):
        writer.write(identifier, pa.Table.from_pylist(rows(IDS, identifier), schema=SCHEMA), None)


@pytest.mark.parametrize("way", [write, stream])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_durable_before_the_log_names_them(
    tmp_path: Path,
    bootstrap_servers: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    way: Callable[[Table, StepObserver], None],
) -> None:
    table = made(tmp_path, bootstrap_servers, kind)
    disk = Disk(monkeypatch, table)
    way(table, disk.look)
    assert disk.looks >= 6  # of three buckets, twice
    assert disk.early == []


def test_files_of_all_buckets_are_durable_before_one_of_them_is_logged(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another bucket takes longer: its files are named by the header of the first."""
    table = made(tmp_path, bootstrap_servers)
    disk = Disk(monkeypatch, table)
    monkeypatch.setattr(write_parts, "_THREADS_MAX", 1)  # one bucket after the other
    write(table, disk.look)
    assert disk.early == []
