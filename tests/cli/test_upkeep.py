"""`lakelog table compact`, `expire` and `drop-partitions` as a user types them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from tests.cli.conftest import Run

SCHEMA = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four commits of one row each, in two partitions."""
    options = {"write-only": "true"}
    table = Catalog(tmp_path).create_table(
        "db.t", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options=options
    )
    for number in range(4):
        table.store.write(pa.table({"day": [f"d{number % 2}"], "id": [number]}, schema=SCHEMA))
    return table


def ids(table: Table) -> list[int]:
    return sorted(open_table(table.path).to_arrow()["id"].to_pylist())


def test_files_are_merged(run: Run, table: Table) -> None:
    assert run("table", "compact", table.path) == (0, "nothing to merge\n", "")
    assert run("table", "compact", table.path, "--full") == (0, "snapshot 5\n", "")
    assert ids(table) == [0, 1, 2, 3]


def test_snapshots_expire(run: Run, table: Table) -> None:
    run("table", "compact", table.path, "--full")
    assert run("table", "expire", table.path)[1].startswith("0 snapshots, 0 data files")
    _, out, _ = run("table", "expire", table.path, "--retain-min", "1", "--older-than", "0 ms")
    assert out.startswith("4 snapshots, 4 data files")
    assert ids(table) == [0, 1, 2, 3]
    assert "cannot both be kept" in run("table", "expire", table.path, "--retain-max", "3")[2]
    assert "expected a form such as 2 h" in run("table", "expire", table.path, "--older-than", "2 moons")[2]


def test_partitions_are_dropped(run: Run, table: Table) -> None:
    assert run("table", "drop-partitions", table.path, "--where", "day = 'd1'") == (0, "snapshot 5\n", "")
    assert ids(table) == [0, 2]
    assert "no partition meets" in run("table", "drop-partitions", table.path, "--where", "day = 'd1'")[1]
    refused = run("table", "drop-partitions", table.path, "--where", "id = 1")[2]
    assert "names id, expected its partition columns alone" in refused


def test_orphans_are_named_and_deleted(run: Run, table: Table) -> None:
    lost = Path(table.path) / "manifest" / "manifest-lost-0"
    lost.write_bytes(b"lost")
    assert run("table", "remove-orphan-files", table.path)[1].startswith(
        "0 files of 0 bytes and 0 folders would be deleted"
    )
    os.utime(lost, (1_700_000_000, 1_700_000_000))
    _, out, _ = run("table", "remove-orphan-files", table.path, "--older-than", "2 h")
    assert out == f"{lost}\n1 files of 4 bytes and 0 folders would be deleted; give --delete\n"
    assert lost.exists()
    _, out, _ = run("table", "remove-orphan-files", table.path, "--delete", "--json")
    assert json.loads(out) == {"path": str(lost), "size_bytes": 4, "modified_millis": 1_700_000_000_000}
    assert not lost.exists()
    assert ids(table) == [0, 1, 2, 3]


def test_a_short_age_needs_a_word(run: Run, table: Table) -> None:
    lost = Path(table.path) / "index" / "index-lost-0"
    lost.parent.mkdir()
    lost.write_bytes(b"lost")
    code, _, error = run("table", "remove-orphan-files", table.path, "--older-than", "0 ms", "--delete")
    assert code != 0
    assert "--allow-young" in error
    assert lost.exists()
    run("table", "remove-orphan-files", table.path, "--older-than", "0 ms", "--delete", "--allow-young")
    assert not lost.exists()


def test_consumers_are_shown_moved_and_forgotten(run: Run, table: Table) -> None:
    assert run("table", "reset-consumer", table.path, "reader", "--next", "2") == (0, "", "")
    assert run("table", "consumers", table.path) == (0, "reader 2\n", "")
    found = json.loads(run("table", "consumers", table.path, "--json")[1])
    assert found == {"id": "reader", "next_snapshot": 2, "is_own": False}
    assert "can read from snapshot 1 to 5 on" in run("table", "reset-consumer", table.path, "reader", "--next", "9")[2]
    assert run("table", "delete-consumer", table.path, "reader") == (0, "", "")
    assert "has no consumer 'reader'" in run("table", "delete-consumer", table.path, "reader")[2]


def test_a_commit_is_found_by_its_uuid(run: Run, table: Table) -> None:
    uuid = str(table.store.snapshots.get(2).uuid)
    assert run("table", "find-commit", table.path, uuid) == (0, "committed as snapshot 2\n", "")
    assert run("table", "find-commit", table.path, "lost", "--snapshot-id", "3")[1] == "not committed: write again\n"
    assert run("table", "find-commit", table.path, "lost", "--snapshot-id", "5")[1].startswith("not committed so far")
    run("table", "expire", table.path, "--retain-min", "1", "--older-than", "0 ms")
    assert run("table", "find-commit", table.path, uuid)[1].startswith("not knowable: snapshots up to 3 have expired")
    found = json.loads(run("table", "find-commit", table.path, uuid, "--json")[1])
    assert found == {"outcome": "not knowable", "snapshot_id": None, "expired_up_to": 3, "is_open": False}
