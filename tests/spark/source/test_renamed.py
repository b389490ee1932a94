"""A stream that runs while its table is renamed or dropped ends with that, and does not wait for ever."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import ConflictError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.streams.phases import stream_head

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_stream_whose_table_is_renamed_ends_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_snapshots: bool
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    if has_snapshots:
        table.write(pa.table({"id": [1]}, schema=SCHEMA))
    source = LakelogDataSource({"path": table.path})
    reader = source.streamReader(source.schema())
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) == end

    catalog.rename_table("db.t", "db.u")

    with pytest.raises(ConflictError, match=r"was dropped, renamed, or created again.* a renamed one by its new name"):
        reader.latestOffset(end, limit)
    assert not Path(table.path).exists()
