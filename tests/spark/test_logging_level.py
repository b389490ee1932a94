"""Writes by `format("lakelog")` show the lines of their commits where the user asks for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import OptionError
from lakelog.spark.logging_level import VARIABLE, LoggingLevel, logging_level_of
from tests.support.jobs import shown_commits

ROOT = Path(__file__).parent.parent.parent
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
COMMITS_KEY = "spark.sql.pyspark.worker.logging.enabled"
# What Spark's processes do with a batch write: one plans it, and another one, whose logging is new, commits it.
WRITE = """
import logging, pickle, sys
from pyspark.sql.types import LongType, StructType
from lakelog.spark.data_source import LakelogDataSource
options = dict(pair.split("=") for pair in sys.argv[2:])
writer = LakelogDataSource({"path": sys.argv[1], **options}).writer(StructType().add("id", LongType(), False), False)
planned = pickle.dumps(writer)
logging.getLogger("lakelog").handlers.clear()
logging.getLogger("lakelog").setLevel(logging.NOTSET)
pickle.loads(planned).commit([])
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"])


def shown(table: Table, environment: dict[str, str], *options: str) -> str:
    """What the process that commits a batch write shows on standard error."""
    environ = {key: value for key, value in os.environ.items() if key != VARIABLE} | environment
    command = [sys.executable, "-c", WRITE, table.path, *options]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True).stderr


@pytest.mark.full
def test_a_process_that_commits_shows_its_line_where_it_is_asked_to(table: Table) -> None:
    line = re.compile(r"^[-\d]+ [:,\d]+ INFO lakelog\.filestore: commit table=db\.t snapshot=\d+ kind=APPEND ", re.M)
    assert shown(table, {}) == ""
    assert line.search(shown(table, {}, "logging-level=info"))
    assert line.search(shown(table, {VARIABLE: "INFO"}))
    assert len(list(table.snapshots())) == 3


@pytest.mark.parametrize(
    ("options", "environment", "level"),
    [
        ({}, {}, None),
        ({"Logging-Level": "info"}, {VARIABLE: "DEBUG"}, LoggingLevel.INFO),
        ({}, {VARIABLE: " debug "}, LoggingLevel.DEBUG),
    ],
)
def test_an_option_goes_before_the_environment(
    options: dict[str, str], environment: dict[str, str], level: LoggingLevel | None
) -> None:
    assert logging_level_of(options, environment) is level


def test_a_level_that_is_unknown_is_refused_by_the_name_that_it_came_by() -> None:
    known = "expected DEBUG, INFO, WARNING or ERROR"
    with pytest.raises(OptionError, match=f"option 'logging-level' has the value 'loud'; {known}"):
        logging_level_of({"logging-level": "loud"}, {})
    with pytest.raises(OptionError, match=f"option '{VARIABLE}' has the value 'loud'; {known}"):
        logging_level_of({}, {VARIABLE: "loud"})


@pytest.fixture
def collecting(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark while it collects what Python workers log."""
    session = spark.newSession()
    session.conf.set(COMMITS_KEY, "true")
    yield session
    session.conf.unset(COMMITS_KEY)


@pytest.mark.full
def test_spark_collects_the_lines_of_commits_where_it_is_told_to_and_the_level_says_so(
    collecting: SparkSession, table: Table
) -> None:
    writer = collecting.range(3).write.format("lakelog").option("logging-level", "INFO").mode("append")
    writer.save(table.path)
    logs = collecting.tvf.python_worker_logs().where("logger = 'lakelog.filestore' AND level = 'INFO'").collect()
    assert [row.msg.split(" user=")[0] for row in logs] == [
        "commit table=db.t snapshot=1 kind=APPEND rows=3 files_added=2 files_deleted=0"
    ]


@pytest.mark.full
def test_batch_and_streaming_writes_show_their_commits_on_the_standard_error_of_spark(
    table: Table, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0").write_text(json.dumps({"id": 7}))
    command = [sys.executable, "-m", shown_commits.__name__, table.path, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = re.findall(r"INFO lakelog\.filestore: commit table=db\.t snapshot=(\d+) .* identifier=(\d+)", ended.stderr)
    batch, stream = sorted(lines)
    assert batch[0] == "1"
    assert stream == ("2", "0")
