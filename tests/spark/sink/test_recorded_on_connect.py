"""What a sink on Spark Connect records, where no plan is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.origins.record import BatchLineage, UnknownSource
from lakelog.spark import LakelogSink
from lakelog.spark.capture.capture import Capture
from tests.spark.sink.test_capture import make, pinned


def test_a_sink_on_connect_records_what_was_declared(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake")
    source = make(catalog, "source", 1)
    found = Capture(job="j", names=["db.source@1", "db.gone@2"]).without_plan(3, catalog.warehouse)

    assert (found.job, found.batch_id, found.sources[0]) == ("j", 3, pinned(source, 1))
    assert isinstance(found.sources[1], UnknownSource)
    assert found.sources[1].why.startswith("db.gone@2 was declared")


def test_a_sink_on_connect_says_that_it_sees_no_plan(tmp_path: Path) -> None:
    found = Capture().without_plan(0, str(tmp_path))

    (source,) = found.sources
    assert found == BatchLineage(batch_id=0, operation="WRITE", sources=(source,))
    assert isinstance(source, UnknownSource)
    assert "sources=" in source.why


def test_a_declared_name_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    table = make(Catalog(tmp_path / "lake"), "sink")

    with pytest.raises(InvalidRequestError, match=r"the source 'db\.a@x' is not a table and a snapshot"):
        LakelogSink(table, sources=["db.a@x"])
