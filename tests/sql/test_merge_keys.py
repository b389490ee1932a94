"""What MERGE without Spark may set a primary key to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())])
MERGES = {
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id, n = s.n": True,
    "ON (s.id = t.id AND t.n < 100) WHEN MATCHED THEN UPDATE SET t.id = s.id, n = s.n": True,
    "ON t.id IS NOT DISTINCT FROM s.id WHEN MATCHED THEN UPDATE SET *": True,
    "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.other, n = s.n": False,
    "ON t.id = s.id OR t.n = s.n WHEN MATCHED THEN UPDATE SET id = s.id, n = s.n": False,
    "ON t.n = s.old WHEN MATCHED THEN UPDATE SET *": False,
}


@pytest.mark.parametrize("merge", MERGES)
def test_a_merge_sets_a_primary_key_to_what_on_equates_with_it(tmp_path: Path, merge: str) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id")
    table.write(pa.table({"id": [2, 3], "n": [5, 6]}))
    connection = lakelog.sql.connect(catalog)
    text = f"MERGE INTO db.t AS t USING (SELECT 2 AS id, 50 AS n, 1 AS other, 6 AS old) AS s {merge}"
    if MERGES[merge]:
        connection.sql(text)
    else:
        with pytest.raises(InvalidRequestError, match="sets 'id', a column of the primary key"):
            connection.sql(text)
    rows = sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())
    assert rows == ([(2, 50), (3, 6)] if MERGES[merge] else [(2, 5), (3, 6)])
