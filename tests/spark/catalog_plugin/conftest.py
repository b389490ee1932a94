"""A session with an attached warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog.spark import attach, detach


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    made = spark.newSession()
    attach(made, "lake", tmp_path / "lake")
    yield made
    detach(made, "lake")
