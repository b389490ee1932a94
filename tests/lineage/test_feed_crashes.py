"""A feed that is killed anywhere loses nothing and doubles nothing."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import feed, known_edges
from lakelog.lineage.tables.feeding import feed_catalog
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, make_sink, system_rows, table_source

STEPS = 13  # of a feed at least


def commit_some(table: Table, batch: int) -> None:
    commit_job(table, batch, table_source("db.a", start=batch, end=batch + 1), table_source("db.b", end=batch))


def truth(count: int) -> list[tuple[int, str, int]]:
    """Batch, source and its snapshot of so many batches, as `commit_some` records them."""
    edges = [(batch, name, to) for batch in range(count) for name, to in (("db.a", batch + 1), ("db.b", batch))]
    return sorted(edges)


def edges(catalog: Catalog) -> list[tuple[int, str, int]]:
    found = known_edges(catalog).select(["barrier_id", "source_table", "source_to"])
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_feed_that_ends_after_any_step_is_finished_by_the_next(catalog: Catalog) -> None:
    table = make_sink(catalog)
    batch, has_ended = 0, False
    while not has_ended:
        commit_some(table, batch)
        batch += 1
        left = batch

        def end(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise InjectedCrash

        with contextlib.suppress(InjectedCrash):
            feed_catalog(catalog, end)
            has_ended = True
        assert edges(catalog) == truth(batch)
    assert batch > STEPS

    assert feed(catalog).batches == 0
    found = system_rows(catalog, "snapshot_edges", "barrier_id", "source_table", "source_to")
    assert sorted(found) == truth(batch)
    assert len(system_rows(catalog, "sink_snapshot_lineage")) == batch


def test_a_feed_whose_files_fail_at_any_call_is_finished_by_the_next(catalog: Catalog) -> None:
    table = make_sink(catalog)
    real = catalog._file_io
    batch = 0
    for fails_at in range(1, 1_000, 37):
        commit_some(table, batch)
        batch += 1
        dying = FaultyFileIO(real, fails_at=fails_at, after_effect=batch % 2 == 0)
        catalog._file_io = dying
        try:
            with contextlib.suppress(InjectedCrash):
                feed(catalog)
        finally:
            catalog._file_io = real
        assert edges(catalog) == truth(batch)
        if not dying.has_failed:
            break

    assert batch > 3
    feed(catalog)
    assert sorted(system_rows(catalog, "snapshot_edges", "barrier_id", "source_table", "source_to")) == truth(batch)


PROGRAM = """
import os, signal, sys
from lakelog.catalog import Catalog
from lakelog.lineage.tables.feeding import feed_catalog
left = int(sys.argv[2])

def step(name):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

feed_catalog(Catalog(sys.argv[1], options={"table-lineage": "true", "data-lineage": "true"}), step)
"""


@pytest.mark.full
def test_a_process_that_is_killed_after_any_step_loses_nothing(tmp_path: Path) -> None:
    killed = Catalog(tmp_path / "killed", options=LINEAGE_ON)
    whole = Catalog(tmp_path / "whole", options=LINEAGE_ON)
    tables = [make_sink(catalog) for catalog in (killed, whole)]
    for at in range(1, 100):
        for table in tables:
            commit_some(table, at - 1)
        ended = subprocess.run([sys.executable, "-c", PROGRAM, killed.warehouse, str(at)], check=False, timeout=60)
        assert edges(killed) == truth(at)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
    assert at > STEPS

    feed(killed)
    feed(whole)
    columns = ("job", "barrier_id", "database", "table", "snapshot_id")
    for name in ("source_snapshot_lineage", "sink_snapshot_lineage"):
        assert system_rows(killed, name, *columns) == system_rows(whole, name, *columns)
