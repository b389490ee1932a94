"""Released Paimon 2.0 describes its system tables with the columns that lakelog's have."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.filestore.system.system_columns import SYSTEM_NAMES
from tests.support.servers.flink import running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

# Columns behind Paimon's own: of the proposals of tags and branches, and the newest of snapshot files.
BEHIND = {
    "snapshots": ["writer_version"],
    "tags": ["tagged_snapshot_id"],
    "branches": ["tag_name", "tagged_snapshot_id"],
}

# Not nullable in Paimon, where rows from before the numbering have none all the same.
NUMBERS = {"_ROW_ID", "_SEQUENCE_NUMBER"}


def test_columns_and_types_are_those_of_paimon(tmp_path: Path) -> None:
    (tmp_path / "flink").mkdir()
    with running_flink(tmp_path / "flink", is_batch=True) as flink:
        flink.run(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}/lake')")
        flink.run("USE CATALOG lake")
        flink.run("CREATE DATABASE db")
        flink.run("USE db")
        flink.run("CREATE TABLE t (id BIGINT, v STRING, `at` TIMESTAMP(3)) WITH ('row-tracking.enabled' = 'true')")
        theirs = {name: flink.run(f"DESCRIBE `t${name}`") for name in SYSTEM_NAMES}
    table = Catalog(tmp_path / "lake").load_table("db.t")
    for name, described in theirs.items():
        wanted = [(row[0], str(row[1]).replace("`", ""), str(row[2])) for _kind, row in described]
        fields = [one for one in table.system.table(name).fields if one.name not in BEHIND.get(name, ())]
        found = [(one.name, str(one.type.with_nullable(True)), str(one.type.nullable)) for one in fields]
        assert [one for one in found if one[0] not in NUMBERS] == [one for one in wanted if one[0] not in NUMBERS], name
        assert [one[:2] for one in found] == [one[:2] for one in wanted], name
