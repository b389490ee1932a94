"""Tables that Flink wrote expire and are cleaned: what is kept has the rows that Flink read, and nothing else stays."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, remove_orphan_files
from tests.support.tables.paimon_tables import CASES, expected, unpack
from tests.support.tables.referenced import files_on_disk, referenced_files

EVERYTHING = Retention(count_min=1, count_max=1, age_millis=0, limit=1_000)
DAY = 24 * 3_600_000
IO = LocalFileIO(sync_data=False)
CLEANED = [
    (case, table.name)
    for case in (
        "changelog_lookup",
        "deletion_vectors",
        "dynamic_bucket",
        "layout_options",
        "pk_partitioned",
        "tags_branches",
    )
    for table in sorted((CASES / case / "expected").glob("*"))
]
GATE = {("changelog_lookup", "changelog_lookup"), ("tags_branches", "tagged"), ("tags_branches", "forwarded")}
KEPT_TAGS = {("forwarded", None): "base", ("forwarded", "dev"): "base", ("tagged", None): "t2", ("tagged", "b1"): "t1"}


def rows_of(table: FileStoreTable, tag: str | None = None) -> Counter[str]:
    rows = to_json_lines(table.to_arrow(tag=tag), table.schema.fields)
    return Counter(json.dumps(json.loads(row), sort_keys=True) for row in rows)


def flink_reads(case: str, name: str, what: str) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in expected(case, name, what))


def expire_and_clean(table: FileStoreTable) -> None:
    expire_snapshots(table, retention=EVERYTHING)
    remove_orphan_files(table, older_than_millis=-DAY, dry_run=False, allow_young=True)
    assert files_on_disk(table.path) == referenced_files(table.path)


@pytest.mark.parametrize(
    ("case", "name"), [pytest.param(*one, marks=() if one in GATE else pytest.mark.full) for one in CLEANED]
)
def test_a_table_of_flink_expires_and_is_cleaned(tmp_path: Path, case: str, name: str) -> None:
    table = FileStoreTable.open(unpack(case, tmp_path) / "db.db" / name, IO)
    branches = [row["branch_name"] for row in expected(case, name, "branches")]
    before = {branch: rows_of(FileStoreTable.open(table.path, IO, branch=branch)) for branch in branches}
    before |= {None: rows_of(table)}
    expire_and_clean(table)
    for branch in branches:  # one after another, each with the files that the others share
        expire_and_clean(FileStoreTable.open(table.path, IO, branch=branch))
    for branch, rows in before.items():
        view = FileStoreTable.open(table.path, IO, branch=branch or "main")
        assert rows_of(view) == rows
        assert len(view.snapshots.ids()) <= 1
        tag = KEPT_TAGS.get((name, branch))
        if tag is not None:
            prefix = "" if branch is None else f"branch-{branch}."
            assert rows_of(view, tag) == flink_reads(case, name, f"{prefix}tag-{tag}")
    if case in ("changelog_lookup", "deletion_vectors", "tags_branches"):  # whose columns need no special form
        assert rows_of(table) == flink_reads(case, name, "latest")


@pytest.mark.parametrize("name", ["dv", "dv64", "dv_part"])
def test_expiry_leaves_no_unnamed_index_file(tmp_path: Path, name: str) -> None:
    table = FileStoreTable.open(unpack("deletion_vectors", tmp_path) / "db.db" / name, IO)
    index_files = len(list((Path(table.path) / "index").iterdir()))
    expire_snapshots(table, retention=EVERYTHING)
    assert 0 < len(list((Path(table.path) / "index").iterdir())) < index_files
    assert files_on_disk(table.path) == referenced_files(table.path)
    assert rows_of(table) == flink_reads("deletion_vectors", name, "latest")
