"""Tables that Flink wrote with Paimon are read as Flink reads them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any  # Any: JSON rows

import numpy as np
import pyarrow as pa
import pytest

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import ROW_KIND_COLUMN, DataField, parse_type
from lakelog.filestore.options.reading import ChangeSource
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes
from tests.support.tables.paimon_tables import CASES, expected, unpack

TABLES = [
    (case.name, table.name)
    for case in sorted(CASES.iterdir())
    for table in sorted((case / "expected").glob("*"))
    if (table / "latest.jsonl").exists()
]
COMPACTED = [
    ("pk_basic", "pk_basic"),
    ("compacted", "compacted"),
    ("compacted", "compacted_full"),
    ("pk_all_types", "types_parquet"),
    ("pk_partitioned", "part_pk"),
    ("layout_options", "indexed"),
    ("layout_options", "merged"),
    ("layout_options", "no_stats"),
    ("layout_options", "prefixed"),
]

TAGS = {
    ("forwarded", None): ["base"],
    ("forwarded", "dev"): ["base"],
    ("tagged", None): ["t1", "t2"],
    ("tagged", "b1"): ["t1"],
}


def open_case(case: str, name: str, folder: Path) -> FileStoreTable:
    return FileStoreTable.open(unpack(case, folder) / "db.db" / name)


def rows_of(
    table: FileStoreTable,
    snapshot_id: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> Counter[str]:
    rows = table.to_arrow(snapshot_id=snapshot_id, columns=columns, tag=tag, branch=branch)
    fields = table.schema.fields if columns is None else table.schema.select(columns)
    return as_multiset(json.loads(line) for line in to_json_lines(rows, fields))


def as_multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(_as_float32(row), sort_keys=True) for row in rows)


def _as_float32(value: Any) -> Any:
    """The value with its numbers as FLOAT holds them, which is how FLOAT columns are compared; large ones stay."""
    if isinstance(value, float):
        return repr(float(np.float32(value))) if abs(value) < 3e38 else repr(value)
    if isinstance(value, list):
        return [_as_float32(item) for item in value]
    return {key: _as_float32(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(("case", "name"), TABLES)
def test_every_snapshot_has_the_rows_that_flink_reads(tmp_path: Path, case: str, name: str) -> None:
    table = open_case(case, name, tmp_path)
    assert rows_of(table) == as_multiset(expected(case, name, "latest"))
    for snapshot in expected(case, name, "snapshots"):
        snapshot_id = snapshot["snapshot_id"]
        rows = PlannedRead.of(table, table.snapshots.get(snapshot_id), table.schema.fields).to_table()
        found = as_multiset(json.loads(line) for line in to_json_lines(rows, table.schema.fields))
        assert found == as_multiset(expected(case, name, f"snapshot-{snapshot_id}"))


@pytest.mark.parametrize("name", ["evolve_append", "evolve_nested", "evolve_pk"])
def test_a_state_has_in_its_own_columns_the_values_that_flink_reads_in_the_newest(tmp_path: Path, name: str) -> None:
    """Flink reads every state in the newest columns, of which the state has those with the same field ids."""
    table = open_case("schema_evolution", name, tmp_path)
    for snapshot in table.snapshots.living():
        then = {field.id: field for field in table.schemas.get(snapshot.schema_id).fields}
        rows = table.to_arrow(snapshot_id=snapshot.id)
        assert rows.column_names == [field.name for field in then.values()]
        kept = [field for field in table.schema.fields if field.id in then and not field.type.is_nested]
        arrow = to_arrow_schema(kept)
        now = pa.table([rows[then[one.id].name].cast(arrow.field(at).type) for at, one in enumerate(kept)], arrow)
        found = as_multiset(json.loads(line) for line in to_json_lines(now, kept))
        flink = expected("schema_evolution", name, f"snapshot-{snapshot.id}")
        assert found == as_multiset({one.name: row[one.name] for one in kept} for row in flink), snapshot.id


@pytest.mark.parametrize("name", ["evolve_append", "evolve_pk"])
def test_a_dropped_column_is_there_as_the_statements_wrote_it(tmp_path: Path, name: str) -> None:
    table = open_case("schema_evolution", name, tmp_path)
    for number, rows in ((1, {1: "g1", 2: "g2", 3: None}), (2, {4: "g4"}), (3, {5: "g5"})):
        found = table.to_arrow(snapshot_id=number, columns=["id", "gone"])
        assert {(one["id"], one["gone"]) for one in found.to_pylist()} >= set(rows.items())
    assert "gone" not in table.to_arrow(snapshot_id=4).column_names
    assert table.to_arrow(snapshot_id=5, where="gone = 777").num_rows == 1  # another column of this name
    assert table.to_arrow(snapshot_id=3, where="gone = 'g5'").column("id").to_pylist() == [5]


@pytest.mark.parametrize(("case", "name"), COMPACTED)
def test_a_full_compaction_of_a_table_of_flink_changes_no_row(tmp_path: Path, case: str, name: str) -> None:
    table = open_case(case, name, tmp_path)
    table.compact(full=True)
    assert rows_of(table) == as_multiset(expected(case, name, "latest"))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("append_only", "append_unaware"),
        ("changelog_full_compaction", "changelog_full_compaction"),
        ("changelog_input", "changelog_input"),
        ("changelog_input", "changelog_none"),
        ("changelog_lookup", "changelog_lookup"),
        ("merge_engines", "first_row"),
        ("pk_basic", "pk_basic"),
    ],
)
@pytest.mark.parametrize("source", [ChangeSource.CHANGELOG, ChangeSource.DELTA])
def test_the_changes_of_every_snapshot_are_those_that_flink_reads(
    tmp_path: Path, case: str, name: str, source: ChangeSource
) -> None:
    table = open_case(case, name, tmp_path)
    fields = [DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING")), *table.schema.fields]
    for snapshot in expected(case, name, "snapshots"):
        number = snapshot["snapshot_id"]
        batches = changes(table, after=number - 1, up_to=number, source=source)
        found = [json.loads(line) for batch in batches for line in to_json_lines(batch, fields)]
        wanted = [{ROW_KIND_COLUMN: row.pop("rowkind"), **row} for row in expected(case, name, f"{source}-{number}")]
        assert as_multiset(found) == as_multiset(wanted), number


@pytest.mark.parametrize("source", [ChangeSource.CHANGELOG, ChangeSource.DELTA])
def test_changes_that_orc_manifests_name_are_those_that_flink_reads(tmp_path: Path, source: ChangeSource) -> None:
    table = open_case("orc_manifests", "agg", tmp_path)
    fields = [DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING")), *table.schema.fields]
    for number in range(1, 5):
        batches = changes(table, after=number - 1, up_to=number, source=source)
        found = [json.loads(line) for batch in batches for line in to_json_lines(batch, fields)]
        rows = expected("orc_manifests", "agg", f"{source}-{number}")
        assert as_multiset(found) == as_multiset({ROW_KIND_COLUMN: row.pop("rowkind"), **row} for row in rows), number


@pytest.mark.parametrize("name", ["forwarded", "rolled", "tagged"])
def test_tags_and_branches_have_the_rows_that_flink_reads(tmp_path: Path, name: str) -> None:
    table = open_case("tags_branches", name, tmp_path)
    seen = 0
    for branch in [None, *(row["branch_name"] for row in expected("tags_branches", name, "branches"))]:
        view = table if branch is None else FileStoreTable.open(table.path, branch=branch)
        prefix = "" if branch is None else f"branch-{branch}."
        latest = "latest" if branch is None else f"branch-{branch}"
        assert rows_of(view) == as_multiset(expected("tags_branches", name, latest))
        assert rows_of(table, branch=branch) == rows_of(view)
        for snapshot in expected("tags_branches", name, f"{prefix}snapshots"):
            rows = expected("tags_branches", name, f"{prefix}snapshot-{snapshot['snapshot_id']}")
            assert rows_of(view, snapshot["snapshot_id"]) == as_multiset(rows)
            seen += 1
        for tag in TAGS.get((name, branch), ()):
            assert rows_of(view, tag=tag) == as_multiset(expected("tags_branches", name, f"{prefix}tag-{tag}"))
            assert rows_of(table, branch=branch, tag=tag) == rows_of(view, tag=tag)
            seen += 1
    assert seen


@pytest.fixture
def pk_basic(tmp_path: Path) -> FileStoreTable:
    """A table with two buckets: insert, upsert, update, delete."""
    return open_case("pk_basic", "pk_basic", tmp_path)


def test_a_table_of_flink_is_compacted_without_a_change_of_rows(pk_basic: FileStoreTable) -> None:
    before = rows_of(pk_basic)
    snapshot = pk_basic.compact(full=True)
    assert snapshot is not None
    assert snapshot.id == 5
    assert {entry.file.level for entry in pk_basic.live_files.of(snapshot).entries()} == {5}
    assert rows_of(pk_basic) == before


def test_a_table_of_flink_takes_our_rows_over_its_own(pk_basic: FileStoreTable) -> None:
    before = {row["id"]: row for row in expected("pk_basic", "pk_basic", "latest")}
    rows = pk_basic.to_arrow(where="id in (1, 3)").sort_by("id")
    changed = rows.set_column(2, rows.schema.field("qty"), pa.array([-1, -2], pa.int32()))
    pk_basic.write(changed)
    after = {**before, **{key: {**before[key], "qty": qty} for key, qty in ((1, -1), (3, -2))}}
    assert rows_of(pk_basic) == as_multiset(after.values())


@pytest.mark.parametrize("name", ["dv", "dv64"])
def test_deletion_vectors_count_also_where_the_option_was_taken_back(tmp_path: Path, name: str) -> None:
    """Rows of level 0 show then; no marked row comes back, also not by a compaction."""
    table = open_case("deletion_vectors", name, tmp_path)
    assert table.schema.primary_keys == ("id",)
    options = {key: value for key, value in table.schema.options.items() if not key.startswith("deletion-vectors")}
    plain = replace(table, schema=replace(table.schema, options=options))
    newest = rows_of(plain)
    assert newest == as_multiset(expected("deletion_vectors", name, "latest"))
    plain.compact(full=True)
    assert rows_of(plain) == newest


@pytest.mark.parametrize("name", ["dv", "dv64"])
def test_deletion_vectors_beside_the_data_are_found(tmp_path: Path, name: str) -> None:
    table = open_case("deletion_vectors", name, tmp_path)
    root = Path(table.path)
    for bucket in root.rglob("bucket-*"):
        for index in (root / "index").iterdir():
            shutil.copy(index, bucket)
    shutil.rmtree(root / "index")
    options = {**table.schema.options, "index-file-in-data-file-dir": "true"}
    beside = replace(table, schema=replace(table.schema, options=options))
    assert rows_of(beside) == as_multiset(expected("deletion_vectors", name, "latest"))
