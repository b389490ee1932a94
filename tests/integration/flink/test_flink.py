"""Released Flink reads the logs of every kind of table, by the statements of the guide, without format options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import RowKind
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import abort_records, log_of_table
from tests.support.servers.flink import Flink, folded, running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guide" / "log-consumers.md"
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("carrier", pa.string()), pa.field("delay", pa.int32())]
)
COLUMNS = "id BIGINT, carrier STRING, `delay` INT"
Row = tuple[int, str, int | None]


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    with running_flink(tmp_path_factory.mktemp("flink")) as started:
        yield started


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Iterator[Catalog]:
    yield Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    close_idle_consumers()


def write(table: Table, identifier: int, *rows: Row, kinds: list[RowKind] | None = None) -> None:
    schema = to_arrow_schema(table.schema.fields)
    columns = {name: [row[place] for row in rows] for place, name in enumerate(SCHEMA.names)}
    codes = [kind.value for kind in kinds or [RowKind.INSERT] * len(rows)]
    LocalWriter(table, "q").write(identifier, pa.table(columns, schema=schema), pa.array(codes, pa.int8()))


def statements() -> list[str]:
    """The SQL of the guide, statement by statement."""
    [code] = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    return [statement.strip() for statement in code.split(";") if statement.strip()]


def made(statement: str, table: Table) -> str:
    """A statement of the guide for a table, and as a read that ends with the log."""
    log = log_of_table(table)
    text = statement.replace("db.flights.<table uuid>", log.topic).replace("localhost:9092", log.bootstrap_servers)
    return text.replace("'format'", "'scan.bounded.mode' = 'latest-offset',\n  'format'")


def rows_of(table: Table) -> list[tuple[str | None, ...]]:
    rows = table.to_arrow().to_pylist()
    shown = [tuple(None if value is None else str(value) for value in row.values()) for row in rows]
    return sorted(shown, key=str)


def test_an_upsert_log_is_the_table_by_the_statements_of_the_guide(flink: Flink, catalog: Catalog) -> None:
    table = catalog.create_table(
        "db.flights", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka", "bucket": "2"}
    )
    write(table, 0, (1, "UA", 5), (2, "AA", 7), (3, "B6", None))
    abort_records(table, [98, 99])
    write(table, 1, (1, "UA", 50), (2, "UA", 70))
    write(table, 2, (3, "B6", None), kinds=[RowKind.DELETE])
    setting, create, query = statements()
    name, value = re.findall(r"'([^']*)'", setting)
    flink.environment.getConfig().set(name, value)
    flink.environment.executeSql(made(create, table))

    assert folded(flink.run(query)) == [("UA", "2", "120")]
    assert folded(flink.run("SELECT * FROM flights")) == rows_of(table)

    flink.environment.getConfig().set(name, "false")
    counts = folded(flink.run("SELECT COUNT(*) FROM flights"))
    assert counts != [("2",)], "without the setting Flink counts an update as a new row: the guide's warning holds"


def declared(flink: Flink, name: str, table: Table, *, key: str = "", columns: str = COLUMNS) -> None:
    _, create, _ = statements()
    body = create.partition(") WITH (")[2]
    text = f"CREATE TABLE {name} ({columns}{key}) WITH ({body}"
    flink.environment.executeSql(made(text, table))


def test_a_log_of_all_changes_needs_neither_key_nor_setting(flink: Flink, catalog: Catalog) -> None:
    options = {"log.system": "kafka", "bucket": "2", "log.changelog-mode": "all"}
    table = catalog.create_table("db.all", schema=SCHEMA, primary_keys=["id"], options=options)
    write(table, 0, (1, "UA", 5), (2, "AA", 7))
    kinds = [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    write(table, 1, (1, "UA", 5), (1, "UA", 6), (2, "AA", 7), kinds=kinds)
    declared(flink, "all_changes", table)

    assert folded(flink.run("SELECT * FROM all_changes")) == rows_of(table) == [("1", "UA", "6")]


@pytest.mark.parametrize("write_mode", ["append-only", "change-log"])
def test_the_log_of_a_table_without_key_is_its_multiset(flink: Flink, catalog: Catalog, write_mode: str) -> None:
    options = {"log.system": "kafka", "bucket": "2", "write-mode": write_mode}
    table = catalog.create_table("db.t", schema=SCHEMA, options=options)
    write(table, 0, (1, "UA", 5), (1, "UA", 5), (2, "AA", None))
    if write_mode == "change-log":
        write(table, 1, (1, "UA", 5), kinds=[RowKind.DELETE])
    name = write_mode.replace("-", "_")
    declared(flink, name, table)

    assert folded(flink.run(f"SELECT * FROM {name}")) == rows_of(table)


def test_header_records_are_skipped(flink: Flink, catalog: Catalog) -> None:
    options = {"log.system": "kafka", "bucket": "1", "merge-engine": "first-row"}
    table = catalog.create_table("db.first", schema=SCHEMA, primary_keys=["id"], options=options)
    write(table, 0, (1, "UA", 5))
    write(table, 1, (1, "UA", 9), (2, "AA", 7))
    write(table, 2, (1, "UA", 10))
    declared(flink, "first_rows", table)

    assert folded(flink.run("SELECT * FROM first_rows")) == rows_of(table)
