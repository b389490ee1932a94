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
    assert run("table", "compact", table.path, "--full") == (0, "5\n", "")
    assert ids(table) == [0, 1, 2, 3]


def test_snapshots_expire(run: Run, table: Table) -> None:
    run("table", "compact", table.path, "--full")
    found = json.loads(run("table", "expire-snapshots", table.path, "--json")[1])
    assert (found["deleted_snapshots_count"], found["data_files"]) == (0, 0)
    _, out, _ = run("table", "expire-snapshots", table.path, "--retain-min", "1", "--older-than", "0 ms")
    found = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert (found["deleted_snapshots_count"], found["data_files"]) == ("4", "4")
    assert ids(table) == [0, 1, 2, 3]
    assert "cannot both be kept" in run("table", "expire-snapshots", table.path, "--retain-max", "3")[2]
    assert "expected a form such as 2 h" in run("table", "expire-snapshots", table.path, "--older-than", "2 moons")[2]


def test_partitions_are_dropped(run: Run, table: Table) -> None:
    assert run("table", "drop-partitions", table.path, "--where", "day = 'd1'") == (0, "5\n", "")
    assert ids(table) == [0, 2]
    assert "no partition meets" in run("table", "drop-partitions", table.path, "--where", "day = 'd1'")[1]
    refused = run("table", "drop-partitions", table.path, "--where", "id = 1")[2]
    assert "names id, expected its partition columns alone" in refused


def test_orphans_are_named_and_deleted(run: Run, table: Table) -> None:
    lost = Path(table.path) / "manifest" / "manifest-lost-0"
    lost.write_bytes(b"lost")
    counts = {"deleted_file_count": 0, "deleted_file_total_size_in_bytes": 0, "is_dry_run": True}
    assert json.loads(run("table", "remove-orphan-files", table.path, "--json")[1]) == {
        **counts, "files": [], "folders": []
    }  # fmt: skip
    os.utime(lost, (1_700_000_000, 1_700_000_000))
    _, out, _ = run("table", "remove-orphan-files", table.path, "--older-than", "2 h")
    assert out.splitlines()[2].split() == ["is_dry_run", "true"]
    assert out.splitlines()[-1].split() == [str(lost), "4", "1700000000000"]
    assert lost.exists()
    _, out, _ = run("table", "remove-orphan-files", table.path, "--no-dry-run", "--json")
    assert json.loads(out)["files"] == [{"path": str(lost), "size_bytes": 4, "modified_millis": 1_700_000_000_000}]
    assert not lost.exists()
    assert ids(table) == [0, 1, 2, 3]


def test_a_short_age_needs_a_word(run: Run, table: Table) -> None:
    lost = Path(table.path) / "index" / "index-lost-0"
    lost.parent.mkdir()
    lost.write_bytes(b"lost")
    code, _, error = run("table", "remove-orphan-files", table.path, "--older-than", "0 ms", "--no-dry-run")
    assert code != 0
    assert "allow_young" in error
    assert lost.exists()
    run("table", "remove-orphan-files", table.path, "--older-than", "0 ms", "--no-dry-run", "--allow-young")
    assert not lost.exists()


def test_consumers_are_shown_moved_and_forgotten(run: Run, table: Table) -> None:
    assert run("table", "consumer", "reset", table.path, "reader", "--next-snapshot", "2") == (0, "", "")
    _, out, _ = run("table", "consumer", "list", table.path)
    assert [line.split() for line in out.splitlines()] == [
        ["consumer_id", "next_snapshot", "is_own"],
        ["reader", "2", "false"],
    ]
    found = json.loads(run("table", "consumer", "list", table.path, "--json")[1])
    assert found == {"consumer_id": "reader", "next_snapshot": 2, "is_own": False}
    refused = run("table", "consumer", "reset", table.path, "reader", "--next-snapshot", "9")[2]
    assert "can read from snapshot 1 to 5 on" in refused
    assert run("table", "consumer", "delete", table.path, "reader") == (0, "", "")
    assert "has no consumer 'reader'" in run("table", "consumer", "delete", table.path, "reader")[2]


def test_consumers_are_cleared_by_regular_expressions(run: Run, table: Table) -> None:
    for name in ("day-1", "day-2", "night"):
        table.consumers.reset(name, 2)
    assert run("table", "consumer", "clear", table.path, "--including", "day.*", "--excluding", ".*2")[1] == "day-1\n"
    assert [one.consumer_id for one in table.consumers.list()] == ["day-2", "night"]
    assert "regular expressions" in run("table", "consumer", "clear", table.path, "--including", "(")[2]


def test_a_commit_is_found_by_its_uuid(run: Run, table: Table) -> None:
    uuid = str(table.store.snapshots.get(2).uuid)
    found = json.loads(run("table", "find-commit", table.path, uuid, "--json")[1])
    assert (found["outcome"], found["snapshot_id"]) == ("committed", 2)
    found = json.loads(run("table", "find-commit", table.path, "lost", "--snapshot-id", "3", "--json")[1])
    assert (found["outcome"], found["is_open"], found["advice"]) == ("not committed", False, "write again")
    found = json.loads(run("table", "find-commit", table.path, "lost", "--snapshot-id", "5", "--json")[1])
    assert (found["outcome"], found["is_open"]) == ("not committed", True)
    assert "ask again" in found["advice"]
    run("table", "expire-snapshots", table.path, "--retain-min", "1", "--older-than", "0 ms")
    found = json.loads(run("table", "find-commit", table.path, uuid, "--json")[1])
    assert found == {
        "outcome": "not knowable", "snapshot_id": None, "expired_up_to": 3, "is_open": False,
        "advice": "check for the rows: snapshots up to 3 have expired",
    }  # fmt: skip
