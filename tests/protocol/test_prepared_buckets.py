"""A prepared commit that names a bucket which its table lacks is an error at once: no log would ever answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import CorruptDataError
from lakelog.protocol.state.header import StagedPart
from lakelog.protocol.state.prepared import PreparedCommit, PreparedCommits


@pytest.mark.parametrize("bucket", [2, 7])
def test_a_bucket_that_the_table_lacks_is_named_with_its_prepared_commit(tmp_path: Path, bucket: int) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    options = {"bucket": "2"}
    table = Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys="id", options=options).store
    commits = PreparedCommits(table)
    names = [
        commits.write(
            PreparedCommit(
                table_uuid=table.uuid,
                topic_id="topic",
                user=f"statement-00000000-0000-0000-0000-00000000000{number}",
                operation="DELETE",
                schema_id=0,
                base_snapshot_id=0,
                time_millis=0,
                row_count=1,
                parts={one: StagedPart(offset=0, files=())},
            )
        )
        for number, one in enumerate((1, bucket))
    ]

    commits.check_buckets([0, 1])
    with pytest.raises(CorruptDataError, match=rf"names the bucket {bucket}, and table db\.t has 2") as caught:
        commits.check_buckets([1, bucket])
    assert names[1] in str(caught.value)
    assert names[0] not in str(caught.value)
