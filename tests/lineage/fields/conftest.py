"""A session with the tables of the cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakelog.spark import attach
from tests.support.lineage.field_cases import LAKE, CaseSession


@pytest.fixture(scope="session")
def case_session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseSession]:
    """A session of its own, with a warehouse for the tables whose rows a statement changes."""
    session = spark.newSession()
    attach(session, LAKE, tmp_path_factory.mktemp("truth"))
    session.sql(f"CREATE DATABASE {LAKE}.default")
    made = CaseSession(session, tmp_path_factory.mktemp("databases"))
    yield made
    made.close()
