"""A merge compares and keeps values of every column type."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.filestore.refs import create_branch
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import merge_changes
from tests.support.tables.small_tables import UNSYNCED
from tests.support.tables.typed_rows import COLUMNS

NESTED: dict[str, tuple[pa.DataType, Any]] = {
    "list": (pa.list_(pa.float64()), lambda at: ([], [float("nan"), None], [float(at)])[min(at % 5, 2)]),
    "map": (pa.map_(pa.string(), pa.int32()), lambda at: ([], [("a", None)], [("a", at), ("b", 1)])[min(at % 5, 2)]),
    "struct": (
        pa.struct([pa.field("x", pa.decimal128(20, 2)), pa.field("y", pa.list_(pa.string()))]),
        lambda at: {"x": None if at % 3 else at, "y": [None, str(at)]},
    ),
}
EVERY = COLUMNS | NESTED
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, (kind, _) in EVERY.items())]
)
COUNT = 60


def row_of(number: int, *, changed: str | None = None, by: int = 0) -> dict[str, Any]:
    """A row; one column may have the value of another row, or none where that is the same."""
    row = {"id": number} | {name: value(number) for name, (_, value) in EVERY.items()}
    if changed is not None:
        value = EVERY[changed][1](number + by)
        row[changed] = None if repr(value) == repr(row[changed]) else value
    return row


def rows(changed: dict[int, tuple[str, int]]) -> pa.Table:
    """All rows, of which some are changed: {number: (column, by)}."""
    found = [row_of(number) for number in range(COUNT)]
    for number, (name, by) in changed.items():
        found[number] = row_of(number, changed=name, by=by)
    return pa.Table.from_pylist(found, SCHEMA)


@pytest.mark.parametrize("keys", [("id",), ()], ids=["primary key", "append"])
def test_rows_that_were_written_again_as_they_were_have_not_changed(tmp_path: Path, keys: tuple[str, ...]) -> None:
    options = {"bucket": "1" if keys else "-1"}
    table = FileStoreTable.create(f"{tmp_path}/t", build_schema(SCHEMA, primary_keys=keys, options=options), UNSYNCED)
    table.write(rows({}))
    create_branch(table, "b")
    changed = {number: (name, 1) for number, name in enumerate(EVERY)}
    table.on_branch("b").write(rows(changed), mode="overwrite")
    table.write(rows({40: ("bigint", 1)}), mode="overwrite")

    found = merge_changes(table, "b")

    assert found.conflict_count == 0
    assert (found.upserted + found.inserted, found.deleted) == (len(changed), 0 if keys else len(changed))
    expected = rows(changed | {40: ("bigint", 1)}).to_pylist()
    assert [repr(row) for row in table.to_arrow().sort_by("id").to_pylist()] == [repr(row) for row in expected]


def test_conflicts_name_values_of_every_type(tmp_path: Path) -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table = FileStoreTable.create(f"{tmp_path}/t", schema, UNSYNCED)
    table.write(rows({}))
    create_branch(table, "b")
    names = [name for name in EVERY if name != "boolean"]  # which has but two values
    table.on_branch("b").write(rows({number: (name, 1) for number, name in enumerate(names)}))
    table.write(rows({number: (name, 7) for number, name in enumerate(names)}))

    found = merge_changes(table, "b", on_conflict=dict.fromkeys(names, "branch"))

    differ = [
        number
        for number, name in enumerate(names)
        if repr(row_of(number, changed=name, by=1)) != repr(row_of(number, changed=name, by=7))
    ]
    assert sorted(found.conflicts["id"].to_pylist()) == differ
    for row in found.conflicts.to_pylist():
        name = names[row["id"]]
        assert repr(row["branch"]) == repr(rows({row["id"]: (name, 1)}).to_pylist()[row["id"]])
    expected = rows({number: (name, 1) for number, name in enumerate(names)}).to_pylist()
    assert [repr(row) for row in table.to_arrow().sort_by("id").to_pylist()] == [repr(row) for row in expected]
