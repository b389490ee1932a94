"""Tables with a log whose columns change: log and files stay one, for writers and readers of any of the schemas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, UnavailableError, UnsupportedError
from lakelog.common.types import RowKind
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RenameColumn,
    SetOption,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.spark.options import ReadOptions
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_schema import read_schema
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.admission import NO_LIMITS
from lakelog.streams.reading.offsets import Offset
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.promises import log_changes, snapshot_states

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("a", pa.string()),
        pa.field("r", pa.struct([("x", pa.int32())])),
        pa.field("pairs", pa.map_(pa.string(), pa.struct([("x", pa.int32())]))),
    ]
)
INSERT, BEFORE, AFTER, DELETE = (kind.value for kind in RowKind)
Row = dict[str, Any]


def make_table(folder: Path, bootstrap_servers: str, mode: str) -> Table:
    options = {"log.system": "kafka", "bucket": "2", "log.changelog-mode": mode}
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def write(writer: LocalWriter, identifier: int, changes: Sequence[tuple[int, Row]]) -> None:
    schema = writer.table.schema.arrow_schema
    rows = pa.Table.from_pylist([row for _, row in changes], schema=schema)
    writer.write(identifier, rows, pa.array([kind for kind, _ in changes], pa.int8()))


def by_id(rows: Sequence[Row]) -> dict[int, Row]:
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def check_log_folds_to_files(table: Table) -> None:
    """Promise 2 under the schema of `table`: at every snapshot, the last change of each key is the snapshot's row."""
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    count = 0
    for snapshot, state in snapshot_states(table):
        rows: dict[int, Row] = {}
        for bucket, offset, kind, row in changes:
            if offset < state.logged.position(bucket).offset:
                (values,) = row.to_pylist()
                if RowKind(kind).is_add:
                    rows[values["id"]] = values
                else:
                    rows.pop(values["id"], None)
        files = PlannedRead.of(table.store, snapshot, table.schema.fields).to_table()
        assert by_id(files.to_pylist()) == rows, snapshot.id
        count += 1
    assert count >= 2


class HybridReader:
    """What Spark does with the streaming source, without Spark: plan a batch, read it, go on from its end."""

    def __init__(self, table: Table) -> None:
        options = ReadOptions(
            columns=None,
            where=None,
            has_row_kind=True,
            max_rows=None,
            max_bytes=None,
        )
        schema = read_schema(table.schema, options, table_name=table.name)
        self._rows = TableRows.of(table.store, log_target(table), schema, options)
        self._planner = StreamPlanner(table.store, log_target(table), options)
        self._at: Offset = self._planner.initial()
        self.seen: dict[int, Row] = {}

    def read(self) -> None:
        """Read what is there now; a row that comes twice or is taken back without having come fails."""
        self._planner.fix_head()
        while (end := self._planner.end_of_batch(self._at, NO_LIMITS)) != self._at:
            for part in self._planner.parts(self._at, end):
                for batch in self._rows.rows(part):
                    for row in batch.to_pylist():
                        self._take(row)
            self._at = end

    def _take(self, row: Row) -> None:
        kind = row.pop("_row_kind")
        if kind in ("+I", "+U"):
            assert row["id"] not in self.seen, "a row came twice"
            self.seen[row["id"]] = row
        else:
            assert self.seen.pop(row["id"]) == row, "another row is taken back than came"


def full(number: int, **more: Any) -> Row:
    return {"id": number, "a": f"a{number}", "r": {"x": number}, "pairs": [("k", {"x": number})], **more}


def test_writers_of_both_schemas_keep_log_and_files_one(tmp_path: Path, bootstrap_servers: str) -> None:
    old = make_table(tmp_path, bootstrap_servers, "upsert")
    first = LocalWriter(old, "old")
    write(first, 0, [(INSERT, full(number)) for number in range(4)])
    new = old.alter(
        AddColumn("c", "DECIMAL(12, 3)"),
        AddColumn("words", pa.list_(pa.string()), position=Position(Place.FIRST)),
        AddColumn(("r", "y"), "STRING", position=Position(Place.FIRST)),
        AddColumn(("pairs", "value", "y"), "BIGINT"),
        UpdateColumnPosition("id", Position(Place.LAST)),
    )
    write(first, 1, [(INSERT, full(1, a="from the old one")), (DELETE, full(2)), (INSERT, full(4))])
    more = {"words": ["w", None], "c": pa.scalar("1.5").cast(pa.decimal128(12, 3)).as_py()}
    nested = {"r": {"x": 7, "y": "y"}, "pairs": [("k", {"x": None, "y": 1 << 40})]}
    second = LocalWriter(new, "new")
    write(
        second,
        0,
        [(INSERT, full(1) | more | nested), (INSERT, full(9) | more | nested), (DELETE, full(3) | more | nested)],
    )
    write(LocalWriter(old, "old", is_first=True), 2, [(INSERT, full(0, a="again")), (INSERT, full(9, a="old again"))])
    check_log_folds_to_files(new)
    check_log_folds_to_files(old)
    dropped = new.alter(DropColumn("a"), DropColumn(("r", "x")), AddColumn("later", "INT"))
    write(LocalWriter(new, "new", is_first=True), 1, [(INSERT, full(5) | more | nested)])
    write(
        LocalWriter(dropped, "newest"),
        0,
        [(INSERT, {"id": 6, "c": None, "later": 3, "r": {"y": "z"}, "pairs": None, "words": []})],
    )
    for table in (dropped, new, old):
        check_log_folds_to_files(table)
    assert by_id(dropped.to_arrow(columns=["id", "c", "later"]).to_pylist())[6] == {"id": 6, "c": None, "later": 3}
    before = by_id(dropped.to_arrow().to_pylist())
    old.store.compact(full=True)  # by who knows the oldest schema
    assert by_id(dropped.to_arrow().to_pylist()) == before


def test_a_hybrid_read_goes_on_across_schemas_exactly_once(tmp_path: Path, bootstrap_servers: str) -> None:
    old = make_table(tmp_path, bootstrap_servers, "all")
    writer = LocalWriter(old, "job")
    write(writer, 0, [(INSERT, full(number)) for number in range(3)])
    reader = HybridReader(old)
    reader.read()
    assert reader.seen == by_id(old.to_arrow().to_pylist())
    new = old.alter(AddColumn("c", "INT"))
    write(writer, 1, [(BEFORE, full(1)), (AFTER, full(1, a="old writer")), (INSERT, full(3))])
    late = HybridReader(new)
    late.read()
    writer = LocalWriter(new, "job")
    write(
        writer,
        2,
        [(BEFORE, full(3, c=None)), (AFTER, full(3, c=33)), (DELETE, full(0, c=None)), (INSERT, full(7, c=77))],
    )
    for one, table in ((reader, old), (late, new)):
        one.read()
        assert one.seen == by_id(table.to_arrow().to_pylist())
    assert late.seen[3]["c"] == 33
    assert late.seen[1] == full(1, a="old writer", c=None)
    assert {number: {**row, "c": None} for number, row in reader.seen.items()} == {
        number: {**row, "c": None} for number, row in late.seen.items()
    }
    for table in (old, new):
        check_log_folds_to_files(table)


def test_what_records_do_not_allow_is_refused_and_changes_nothing(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make_table(tmp_path, bootstrap_servers, "upsert")
    write(LocalWriter(table, "job"), 0, [(INSERT, full(1))])
    for change in (RenameColumn("a", "b"), UpdateColumnType(("r", "x"), "BIGINT")):
        with pytest.raises(UnsupportedError, match="the table has a log"):
            table.alter(change)
    for option in (
        SetOption("log.changelog-mode", "all"),
        SetOption("log.system", "none"),
        SetOption("ignore-delete", "true"),
    ):
        with pytest.raises(InvalidRequestError, match="cannot be changed"):
            table.alter(option)
    dropped = table.alter(DropColumn("a"))
    with pytest.raises(UnsupportedError, match="had another column 'a' before"):
        dropped.alter(AddColumn("a", "STRING"))
    assert dropped.store.schemas.list_ids() == [0, 1]


def test_another_address_of_the_same_kafka_is_taken(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make_table(tmp_path, bootstrap_servers, "upsert")
    port = bootstrap_servers.rpartition(":")[2]
    moved = table.alter(SetOption("log.kafka.bootstrap.servers", f"localhost:{port}"))
    assert moved.log is not None
    assert moved.log.bootstrap_servers == f"localhost:{port}"
    write(LocalWriter(moved, "job"), 0, [(INSERT, full(1))])


@pytest.mark.full
def test_an_address_without_the_kafka_of_the_table_is_refused(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make_table(tmp_path, bootstrap_servers, "upsert")
    with pytest.raises(UnavailableError):
        table.alter(SetOption("log.kafka.bootstrap.servers", "localhost:1"))
    assert table.store.schemas.list_ids() == [0]
