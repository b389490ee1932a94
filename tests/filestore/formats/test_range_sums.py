"""Checksums of ranges are held for the files that were read last, up to a number."""

from __future__ import annotations

from lakelog.filestore.formats.blocks.range_sums import RangeSums

A, B, C = ("a", b"1"), ("b", b"1"), ("c", b"1")


def test_a_range_has_its_checksum_in_its_file_alone() -> None:
    sums = RangeSums(10)
    sums.put(A, 0, 5, 7)
    sums.put(A, 0, 6, 8)
    assert sums.get(A, 0, 5) == 7
    assert sums.get(A, 0, 6) == 8
    assert sums.get(A, 1, 5) is None
    assert sums.get(B, 0, 5) is None
    assert sums.get(("a", b"2"), 0, 5) is None  # another file of the same name
    sums.clear()
    assert sums.get(A, 0, 5) is None
    assert len(sums) == 0


def test_files_that_were_not_read_for_the_longest_time_are_dropped() -> None:
    sums = RangeSums(3)
    for file in (A, B, C):
        sums.put(file, 0, 5, 1)
        sums.put(file, 0, 5, 2)  # the same range
    assert len(sums) == 3
    sums.get(A, 0, 1)
    sums.put(C, 5, 9, 3)
    assert [sums.get(file, 0, 5) for file in (A, B, C)] == [2, None, 2]
    for start in range(9):
        sums.put(C, start, 20, 3)
    assert len(sums) <= 3
