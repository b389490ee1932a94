"""Streams create and delete tags after their batches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from lakelog.filestore.refs.tags import auto_tags
from lakelog.filestore.refs.tags.tags import tags_of, write_tag
from lakelog.spark.compaction.compaction import expire_after
from tests.support.tables.small_tables import commit_batch, make_table


def test_a_batch_of_a_stream_is_tagged_before_its_snapshot_expires(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "snapshot.num-retained.min": "1"}
    table = make_table(tmp_path, options={**options, "snapshot.num-retained.max": "1"})
    commit_batch(table, 0)
    commit_batch(table, 1)

    expire_after(table)

    assert [tag.snapshot.id for tag in tags_of(table)] == [1]
    assert table.snapshots.ids() == [2]
    assert table.to_arrow(tag=tags_of(table)[0].name).num_rows == 6


def test_a_stream_deletes_the_tags_whose_time_is_over(tmp_path: Path) -> None:
    auto_tags._expired.clear()
    table = make_table(tmp_path, options={"tag.default-time-retained": "1 d"})
    commit_batch(table, 0)
    write_tag(table, "old", table.snapshots.get(1), time_retained=timedelta(days=1), now_millis=0)
    write_tag(table, "young", table.snapshots.get(1), time_retained=timedelta(days=1))
    commit_batch(table, 1)

    expire_after(table)

    assert table.snapshots.tags() == ["young"]
