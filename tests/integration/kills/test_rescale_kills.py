"""SIGKILL of a process that rescales a logged table, at every step: the next call goes on, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from tests.filestore.processes.zygote import zygote
from tests.support.streams.planned_reader import Reader, expected
from tests.support.tables.small_tables import SCHEMA

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("keys", "stride"),
    [(["id"], 8), pytest.param(["id"], 1, marks=pytest.mark.full), pytest.param([], 1, marks=pytest.mark.full)],
)
def test_a_rescale_that_is_killed_at_any_step_goes_on(
    keys: list[str], stride: int, tmp_path: Path, bootstrap_servers: str
) -> None:
    """Before and after each step; in the gate every eighth of these."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {
        "bucket": "2",
        "log.system": "kafka",
        "log.kafka.bootstrap.servers": bootstrap_servers,
        "snapshot.num-retained.min": "1000",
    }
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=options)
    with zygote("tests.support.jobs.rescale_process") as forks:

        def run(what: str, number: int, dies_at: int = 0) -> int:
            return forks.wait(forks.fork(tmp_path, bootstrap_servers, what, number, dies_at))

        assert run("write", 0) == 0
        reader = Reader(table)
        reader.read()
        event, batch = 2 - stride, 0
        is_whole = False
        while not is_whole:
            event, batch = event + stride, batch + 1
            buckets = 2 + batch % 2
            is_whole = run("rescale", buckets, event) == 0
            if not is_whole:
                refused = run("write", batch)  # it waits for the next call, or is in the old log, or in the new one
                assert run("rescale", buckets) == 0
                assert refused == 0 or run("write", batch) == 0
            assert content(table) == expected(*range(batch + (not is_whole)))
            reader.start()
            assert reader.read() == expected(*range(batch + (not is_whole)))
    assert event > 14, "the last step was tried"
    rescaled = open_table(table.path)
    moves = [one.id for one in rescaled.snapshots() if one.commit_kind is CommitKind.OVERWRITE]
    assert len(moves) == batch, "each rescale is in one snapshot"
    assert rescaled.log_store.verify(from_snapshot=moves[-1]).is_equal
    catalog.drop_table("db.t")


def content(table: Table) -> Counter[tuple[int, int]]:
    rows = open_table(table.path).to_arrow()
    return Counter(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))
