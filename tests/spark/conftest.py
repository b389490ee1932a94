"""One Spark session for all tests of this folder."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.spark import make_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session; it ends with the process, which is quicker than stopping it."""
    return make_session()
