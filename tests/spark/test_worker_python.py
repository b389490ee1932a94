"""A driver in an environment that is not activated: the workers must run the driver's Python, not that of the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
USE = """
from lakelog.catalog import Catalog
import lakelog.spark
"""
READ = """
import pyarrow as pa
table = Catalog("lake").create_table("db.t", schema="id BIGINT", primary_keys=["id"])
table.write(pa.table({"id": [1, 2]}))
print("ROWS", spark.read.format("lakelog").load(table.path).count())
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "program",
    [pytest.param(START + USE + READ, id="session first"), pytest.param(USE + START + READ, id="lakelog first")],
)
def test_the_format_is_found_where_python3_of_the_path_lacks_lakelog(tmp_path: Path, program: str) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text("#!/bin/sh\nexit 1\n")
    (bare / "python3").chmod(0o755)
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")}
    env["PATH"] = f"{bare}:{env['PATH']}"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert "ROWS 2" in ended.stdout, ended.stderr[-2_000:]
