"""What an import, a start of the command line and a look-up leave unloaded: names of modules, no times.

pandas alone takes 0.4 s of processor time, polars 0.15 s, pyarrow.compute 0.1 s; see CONTRIBUTING.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table

# What no table needs to be opened.
HEAVY = {
    "confluent_kafka",
    "duckdb",
    "fastavro",
    "hdfs_native",
    "obstore",
    "pandas",
    "polars",
    "py4j",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyspark",
    "rich",
    "sqlglot",
    "typer",
    "uvicorn",
}


START = "import sys; from lakelog.cli.main import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass"


def loaded(program: str, *arguments: str) -> set[str]:
    """The modules of a new interpreter after this program."""
    show = "import sys\nprint('\\nMODULES', *sys.modules)"
    command = [sys.executable, "-c", f"{program}\n{show}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return set(ended.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("face", ["lakelog.catalog", "lakelog.filestore"])
def test_a_face_is_imported_without_heavy_modules(face: str) -> None:
    assert loaded(f"import {face}") & HEAVY == set()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of one row."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    made = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])
    made.write(pa.table({"id": [1]}, schema=schema))
    return made


def test_a_table_is_opened_without_heavy_modules(table: Table) -> None:
    open_it = "import sys; from lakelog.catalog import open_table; t = open_table(sys.argv[1]); list(t.snapshots())"
    assert loaded(f"{open_it}; t.schema, t.log", table.path) & HEAVY == set()


def test_spark_lists_the_format_and_asks_for_its_schema_without_heavy_modules(table: Table) -> None:
    ask = "import sys; from pyspark_lakelog import DefaultSource; DefaultSource({'path': sys.argv[1]}).schema()"
    assert loaded(ask, table.path) & HEAVY - {"pyspark", "py4j"} == set()


def test_sparks_workers_read_files_without_pandas_and_kafka(table: Table) -> None:
    read = (
        "import sys; from pyspark_lakelog import DefaultSource; source = DefaultSource({'path': sys.argv[1]}); "
        "reader = source.reader(source.schema()); rows = [list(reader.read(part)) for part in reader.partitions()]; "
        "assert rows"
    )
    assert loaded(read, table.path) & {"confluent_kafka", "duckdb", "pandas", "sqlglot"} == set()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["table", "--help"], ["no-such-command"]])
def test_the_command_line_starts_without_heavy_modules(arguments: list[str]) -> None:
    found = loaded(START, *arguments)
    assert (
        found & (HEAVY - {"rich", "typer"} | {"numpy", "pyarrow", "lakelog.catalog.catalog", "lakelog.filestore"})
        == set()
    )


def test_a_command_loads_no_other_command() -> None:
    words = {"broker": "logs.broker", "ingest": "logs.ingest", "lineage": "lineage.lineage", "table": "tables.table"}
    commands = {word: f"lakelog.cli.{name}" for word, name in words.items()}
    assert loaded(START, "--help") & {*commands.values()} == set()
    for word, name in commands.items():
        assert loaded(START, word, "--help") & {*commands.values()} == {name}


def test_a_look_up_from_the_shell_loads_only_what_queries_need(tmp_path: Path) -> None:
    """Of more rows than are kept without a look at their bytes, in a table whose files DuckDB does not read itself."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    made = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])
    made.write(pa.table({"id": pa.array(range(100_000))}, schema=schema))
    found = loaded(START, "sql", "-w", str(tmp_path), "--csv", "-e", "SELECT id FROM db.t WHERE id = 77")
    assert {"duckdb", "sqlglot", "polars"} <= found
    assert found & {"asyncio", "confluent_kafka", "fsspec", "pandas", "pyarrow.dataset", "pyspark", "rich"} == set()
    unneeded = (
        "lakelog.sql.statements.",
        "lakelog.sql.fields.",
        "lakelog.lineage.columns",
        "lakelog.catalog.procedures",
    )
    assert [name for name in found if name.startswith(unneeded)] == []
    assert found & {"lakelog.filestore.write.write", "lakelog.cli.tables.table"} == set()
