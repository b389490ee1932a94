"""How far a stream may read a bucket."""

from __future__ import annotations

from lakelog.streams.phases.stream_head import readable_end


def test_the_end_mark_behind_a_snapshot_is_nothing_to_make_a_batch_of() -> None:
    assert (readable_end(5, 6), readable_end(5, 7), readable_end(5, 4), readable_end(0, 1)) == (5, 7, 5, 1)


def test_the_first_record_behind_a_snapshot_is_read_in_a_log_without_end_marks() -> None:
    assert readable_end(5, 6, has_end_marks=False) == 6
    assert readable_end(5, 4, has_end_marks=False) == 5
