"""Use an installed lakelog: Spark finds its format by itself, and writes and reads a table.

usage: use_wheel.py WAREHOUSE
WAREHOUSE holds the empty table db.t (id BIGINT, name STRING).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import lakelog.common
import lakelog.filestore
import lakelog.logstore

table = str(Path(sys.argv[1], "db.db", "t").absolute())
for part in (lakelog.common, lakelog.filestore, lakelog.logstore):
    assert Path(str(part.__file__)).is_relative_to(sys.prefix), f"{part.__file__} is not from the wheel"
    assert Path(str(part.__file__)).with_name("py.typed").exists()

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = session.config("spark.ui.showConsoleProgress", "false").getOrCreate()
rows = [(1, "one"), (2, "two")]
spark.createDataFrame(rows, "id BIGINT, name STRING").write.format("lakelog").mode("append").save(table)
assert sorted(map(tuple, spark.read.format("lakelog").load(table).collect())) == rows
spark.stop()
print("the wheel works: Spark found the format `lakelog`, wrote and read")
