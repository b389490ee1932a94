"""The system tables of tables that Flink wrote with Paimon are those that Flink reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any  # Any: JSON rows

import pytest

from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.system import open_system_table
from lakelog.filestore.system.row_tables import row_table_fields
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.paimon_tables import CASES, expected, unpack

BINARY_COLUMNS = {"c_binary", "c_bytes", "c_varbinary"}  # Java prints where an array is, lakelog its bytes


def tables_with(name: str) -> list[tuple[str, str]]:
    """The tables of all cases for which Flink's answer of this name was kept."""
    return [
        (case.name, table.name)
        for case in sorted(CASES.iterdir())
        for table in sorted((case / "expected").glob("*"))
        if (table / f"{name}.jsonl").exists()
    ]


def opened(case: str, name: str, folder: Path) -> FileStoreTable:
    return FileStoreTable.open(unpack(case, folder) / "db.db" / name)


def system_rows(table: FileStoreTable, name: str, wanted: Iterable[dict[str, Any]], **which: Any) -> Counter[str]:
    """The rows of a system table in the columns that the expected rows have."""
    columns = list(next(iter(wanted), {}))
    rows = open_system_table(table, name, **which).to_arrow(columns=columns or None).to_pylist()
    return multiset(rows)


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps({key: _same_bytes(value) for key, value in row.items()}, sort_keys=True) for row in rows)


def _same_bytes(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    for column in BINARY_COLUMNS:
        value = re.sub(rf"(?<=\b{column}=)(?:\[B@)?[0-9a-f]+(?=[,}}])", "bytes", value)
        value = re.sub(rf"(?<=\b{column}=)(?=[,}}])", "bytes", value)  # no bytes at all
    return value


@pytest.mark.parametrize(("case", "name"), tables_with("files"))
def test_files_are_those_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = opened(case, name, tmp_path)
    wanted = expected(case, name, "files")
    assert system_rows(table, "files", wanted) == multiset(wanted)


@pytest.mark.parametrize(("case", "name"), tables_with("snapshots"))
def test_snapshots_are_those_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = opened(case, name, tmp_path)
    wanted = expected(case, name, "snapshots")
    assert system_rows(table, "snapshots", wanted) == multiset(wanted)


@pytest.mark.parametrize(("case", "name"), tables_with("branches"))
def test_branches_are_those_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = opened(case, name, tmp_path)
    wanted = expected(case, name, "branches")
    assert system_rows(table, "branches", wanted) == multiset(wanted)
    for branch in (row["branch_name"] for row in wanted):
        for system in ("snapshots", "files", "tags"):
            path = CASES / case / "expected" / name / f"branch-{branch}.{system}.jsonl"
            if path.exists():
                rows = expected(case, name, f"branch-{branch}.{system}")
                assert system_rows(table, system, rows, branch=branch) == multiset(rows), (branch, system)


@pytest.mark.parametrize(("case", "name"), tables_with("tags"))
def test_tags_are_those_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = opened(case, name, tmp_path)
    wanted = expected(case, name, "tags")
    assert system_rows(table, "tags", wanted) == multiset(wanted)


@pytest.mark.parametrize(("case", "name"), tables_with("audit_log"))
def test_the_audit_log_is_the_one_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = opened(case, name, tmp_path)
    batches = open_system_table(table, "audit_log").to_batches()
    fields = row_table_fields(table.schema, "audit_log")
    rows = [json.loads(line) for batch in batches for line in to_json_lines(batch, fields)]
    assert multiset(rows) == multiset(expected(case, name, "audit_log"))


@pytest.mark.parametrize("state", ["", "tag-before."])
@pytest.mark.parametrize("name", ["tracked", "tracked_orc"])
def test_rows_keep_their_numbers_through_a_compaction_of_flink(tmp_path: Path, name: str, state: str) -> None:
    """The tag is of before the compaction, whose file has the numbers in columns of its own."""
    table = opened("row_tracking", name, tmp_path)
    wanted = expected("row_tracking", name, f"{state}row_tracking")
    which = {"tag": "before"} if state else {}
    assert system_rows(table, "row_tracking", wanted, **which) == multiset(wanted)


def test_success_files_of_flink_are_no_tags(tmp_path: Path) -> None:
    table = opened("row_tracking", "tracked", tmp_path)
    success = json.loads(table.file_io.read_bytes(table.paths.tag_success("before")))
    assert success.keys() == {"creationTime", "modificationTime"}
    assert [row["tag_name"] for row in open_system_table(table, "tags").to_arrow().to_pylist()] == ["before"]
