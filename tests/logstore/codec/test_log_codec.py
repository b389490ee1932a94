"""Each format of a log has a codec, which reads what it has written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.common.types import DataField, DataType, RowKind, TypeRoot
from lakelog.logstore.codec.log_codec import codec_of
from lakelog.logstore.options import ChangelogMode, LogFormat

FIELDS = [
    DataField(id=0, name="id", type=DataType(root=TypeRoot.INT, nullable=False)),
    DataField(id=1, name="name", type=DataType(root=TypeRoot.VARCHAR, length=20)),
]


@pytest.mark.parametrize("form", LogFormat)
def test_changes_come_back_from_the_records_of_each_format(form: LogFormat) -> None:
    codec = codec_of(form)
    rows = pa.table({"id": pa.array([1, 1, 2], pa.int32()), "name": ["old", "new", None]})
    kinds = pa.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE], pa.int8())

    records = codec.encode_changes(rows, kinds, FIELDS, ["id"], ChangelogMode.ALL)
    found = codec.decode_records(records.values, FIELDS)

    assert found.rows.to_pylist() == rows.to_pylist()
    assert list(found.kinds) == kinds.to_pylist()
