"""The streaming write by format("lakelog"), in the process that commits."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructType

from lakelog.common.errors import UnavailableError
from lakelog.spark.data_source import LakelogDataSource

AWAY = {
    "path": "s3://bucket/lake/db.db/t",
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key": "key",
    "s3.secret-key": "secret",
    "s3.region": "us-east-1",
    "s3.attempts.maximum": "1",
}


def test_a_batch_ends_without_an_error_of_its_own_while_the_store_is_away() -> None:
    writer = LakelogDataSource(AWAY).streamWriter(StructType().add("id", LongType()), False)
    writer.abort([], 0)
    for call in (lambda: writer.write(iter([])), lambda: writer.commit([], 0)):
        with pytest.raises(UnavailableError, match=r"s3://bucket/lake/db\.db/t.* the store does not answer"):
            call()
