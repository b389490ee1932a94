"""Sorted runs, levels and sections."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import parse_type
from lakelog.filestore.encoding.binary_row import deserialize_row
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import runs_of, sections_of
from tests.support.files.data_files import plain_file

KEY = [parse_type("INT")]
ranges = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda start: (start[0], start[0] + start[1]))
level0 = st.lists(ranges, max_size=8).map(
    lambda given: [plain_file(f"l0-{index}", first=first, last=last) for index, (first, last) in enumerate(given)]
)
upper = st.lists(st.integers(1, 5), max_size=6).map(
    lambda steps: [
        plain_file(f"up-{index}", level=3, first=10 * index, last=10 * index + step) for index, step in enumerate(steps)
    ]
)


def bounds(file: DataFileMeta) -> tuple[int, int]:
    (low,), (high,) = deserialize_row(KEY, file.min_key), deserialize_row(KEY, file.max_key)
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


def overlap(left: DataFileMeta, right: DataFileMeta) -> bool:
    (low, high), (other_low, other_high) = bounds(left), bounds(right)
    return low <= other_high and other_low <= high


def test_level_0_goes_from_the_newest_file_to_the_oldest_and_comes_first() -> None:
    files = [
        replace(plain_file(name, level=level), min_sequence_number=low, max_sequence_number=high)
        for name, level, low, high in (("a", 0, 5, 9), ("b", 0, 10, 12), ("c", 3, 0, 4), ("d", 0, 7, 9), ("e", 1, 0, 4))
    ]
    assert [[file.file_name for file in run.files] for run in runs_of(files, KEY)] == [
        ["b"],
        ["a"],
        ["d"],
        ["e"],
        ["c"],
    ]


def test_files_of_one_level_that_overlap_are_corrupt() -> None:
    files = [plain_file("a", level=2, first=1, last=5), plain_file("b", level=2, first=5, last=9)]
    with pytest.raises(CorruptDataError, match="a and b of level 2 overlap"):
        runs_of(files, KEY)


@given(young=level0, old=upper)
def test_sections_split_the_files_where_no_key_range_crosses(
    young: list[DataFileMeta], old: list[DataFileMeta]
) -> None:
    runs = runs_of([*young, *old], KEY)
    sections = sections_of(runs, KEY)
    found = [file.file_name for section in sections for file in section.files]
    assert sorted(found) == sorted(file.file_name for file in [*young, *old])
    for left, right in pairwise(sections):
        highest = max(bounds(file)[1] for file in left.files)
        assert highest < min(bounds(file)[0] for file in right.files)
    order = {file.file_name: index for index, run in enumerate(runs) for file in run.files}
    for section in sections:
        ranks = [{order[file.file_name] for file in run.files} for run in section.runs]
        assert all(len(rank) == 1 for rank in ranks)
        assert sorted(ranks, key=min) == ranks  # youngest first, as the runs were


@given(young=level0, old=upper)
def test_a_section_cannot_be_split_further(young: list[DataFileMeta], old: list[DataFileMeta]) -> None:
    for section in sections_of(runs_of([*young, *old], KEY), KEY):
        reached, *rest = sorted(section.files, key=bounds)
        end = bounds(reached)[1]
        for file in rest:
            assert bounds(file)[0] <= end
            end = max(end, bounds(file)[1])


def test_level_0_is_never_read_raw_whatever_its_metadata_says() -> None:
    for level, deletes, is_raw in ((0, 0, False), (1, 0, True), (1, 1, False), (1, None, False)):
        file = replace(plain_file("a", level=level), delete_row_count=deletes)
        (section,) = sections_of(runs_of([file], KEY), KEY)
        assert section.is_raw is is_raw
