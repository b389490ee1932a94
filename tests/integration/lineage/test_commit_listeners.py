"""Listeners of a catalog on a table with a log: its statements, restores and compactions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, CommitListener

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])


class Kept(CommitListener):
    """Keeps the snapshots and kinds that it is told of."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:
        self.told.append((snapshot_id, kind))


def test_each_commit_of_a_logged_table_is_told_of_once(tmp_path: Path, bootstrap_servers: str) -> None:
    kept = Kept()
    catalog = Catalog(tmp_path / "lake", bootstrap_servers, listeners_of={"db.t": [kept]}.get)
    options = {"bucket": "1", "log.system": "kafka", "write-only": "true"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    for number in range(3):
        table.write(pa.table({"id": [1, number], "n": [number] * 2}, schema=SCHEMA))
    table.delete("id = 1")
    table.compact(full=True)
    table.restore(snapshot_id=2)

    assert kept.told == [(one.id, one.commit_kind.value) for one in sorted(table.snapshots(), key=lambda one: one.id)]
    assert [kind for _, kind in kept.told].count("COMPACT") == 1
    assert len(kept.told) >= 6
