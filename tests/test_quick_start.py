"""What an import and a start of the command line leave unloaded: names of modules, no times.

pandas alone takes 0.4 s of processor time, polars 0.15 s, pyarrow.compute 0.1 s; see CONTRIBUTING.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog

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
}


def loaded(program: str, *arguments: str) -> set[str]:
    """The modules of a new interpreter after this program."""
    show = "import sys\nprint('\\nMODULES', *sys.modules)"
    command = [sys.executable, "-c", f"{program}\n{show}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return set(ended.stdout.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize("face", ["lakelog.catalog", "lakelog.filestore"])
def test_a_face_is_imported_without_heavy_modules(face: str) -> None:
    assert loaded(f"import {face}") & HEAVY == set()


def test_a_table_is_opened_without_heavy_modules(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"])
    table.write(pa.table({"id": [1]}, schema=schema))

    open_it = "import sys; from lakelog.catalog import open_table; t = open_table(sys.argv[1]); list(t.snapshots())"
    assert loaded(f"{open_it}; t.schema, t.log", table.path) & HEAVY == set()
