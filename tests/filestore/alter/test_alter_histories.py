"""Random schemas, changes, writes and compactions by who knows which schema, against rows by field id."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import ConflictError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable
from tests.support.examples import examples
from tests.support.tables.altered import altered
from tests.support.tables.evolving import KEYS, Model, changes_of, expected, found, schemas, values_of

IO = LocalFileIO(sync_data=False)
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def check(data: st.DataObject, schema: TableSchema, folder: str) -> None:
    tables = [FileStoreTable.create(f"{folder}/t", schema, IO)]
    model = Model()
    for _ in range(data.draw(st.integers(3, 10), label="steps")):
        step = data.draw(st.sampled_from(("alter", "write", "write", "compact")), label="step")
        if step == "alter":
            change = data.draw(changes_of(tables[-1].schema), label="change")
            tables.append(altered(tables[-1], change))
            continue
        table = data.draw(st.sampled_from(tables) | st.just(tables[-1]), label="by")
        if step == "compact":
            table.compact(full=data.draw(st.booleans(), label="full"))
        else:
            write(data, table, model)
        newest = table.snapshots.latest()
        if newest is not None:
            model.keep(newest.id)
        assert found(tables[-1].to_arrow()) == expected(model.rows, tables[-1].schema.fields)
    check_snapshots(FileStoreTable.open(tables[0].path, IO), model)
    for table in tables:
        check_older_reader(table, tables[-1], model)


def write(data: st.DataObject, table: FileStoreTable, model: Model) -> None:
    """Write rows with the columns that the table object knows."""
    fields = table.schema.fields
    keys = data.draw(st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=4), label="keys")
    first = next(one.name for one in fields if one.id == min(key.id for key in table.schema.key_fields))
    rows = []
    for key in keys:
        row = {one.name: data.draw(values_of(one.type)) for one in fields}
        row |= dict.fromkeys(table.schema.partition_keys, key % 2)
        rows.append(row | {first: key})
    kinds = [data.draw(st.sampled_from((0, 2, 3))) for _ in keys]
    model.write(table.schema, rows, kinds)
    given = pa.Table.from_pylist(rows, schema=table.schema.arrow_schema)
    table.write(given, kinds=pa.array(kinds, pa.int8()))


def check_snapshots(table: FileStoreTable, model: Model) -> None:
    """Every snapshot has its rows, under its own schema and under the newest one."""
    for snapshot_id, rows in model.snapshots.items():
        snapshot = table.snapshots.get(snapshot_id)
        then = table.schemas.get(snapshot.schema_id).fields
        read = table.to_arrow(snapshot_id=snapshot_id)
        assert read.column_names == [one.name for one in then]
        assert found(read) == expected(rows, then)
        newest = PlannedRead.of(table, snapshot, table.schema.fields).to_table()
        assert found(newest) == expected(rows, table.schema.fields)


def check_older_reader(table: FileStoreTable, newest: FileStoreTable, model: Model) -> None:
    """Who knows an older schema reads the columns that are still there right, or is told to open the table again."""
    there = {one.id: one for one in newest.schema.fields}
    fields = [one for one in table.schema.fields if one.id in there and not one.type.is_nested]
    try:
        rows = table.to_arrow(columns=[one.name for one in fields])
    except ConflictError:
        assert any(there[one.id].type != one.type for one in fields)
        return
    assert found(rows) == expected(model.rows, fields)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), schema=schemas())
def test_every_state_reads_as_rows_by_field_id_tell(data: st.DataObject, schema: TableSchema) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(data, schema, folder)


@pytest.mark.full
@pytest.mark.timeout(900)
@settings(max_examples=examples(120), deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), schema=schemas())
def test_every_state_reads_as_rows_by_field_id_tell_at_length(data: st.DataObject, schema: TableSchema) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(data, schema, folder)
