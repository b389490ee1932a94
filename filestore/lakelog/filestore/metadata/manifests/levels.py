"""Sorted runs and levels of one bucket, and the sections of runs whose key ranges overlap. Pure.

Level 0 holds files with any key ranges, each a sorted run of its own; every higher level holds one run of files with
disjoint key ranges. Runs go from youngest to oldest: level 0 with the newest file first, then level 1, 2, ... Source:
Paimon spec, "LSM"; Paimon, `Levels` and `IntervalPartition`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import DataType
from lakelog.filestore.encoding.key_order import key_order
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.options.compaction import NUM_LEVELS, NUM_SORTED_RUNS_TRIGGER

Comparable = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Files of one level with disjoint key ranges, in key order; at least one."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size_bytes for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of all files, deletes included."""
        return sum(file.row_count for file in self.files)

    @property
    def min_sequence_number(self) -> int:
        """The smallest sequence number of any row."""
        return min(file.min_sequence_number for file in self.files)

    @property
    def max_sequence_number(self) -> int:
        """The largest sequence number of any row."""
        return max(file.max_sequence_number for file in self.files)

    @property
    def may_hold_deletes(self) -> bool:
        """False when no row is a delete."""
        return any(may_hold_deletes(file) for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Runs, youngest first, whose files overlap each other in key range, but overlap no file outside the section."""

    runs: tuple[SortedRun, ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files of all runs."""
        if len(self.runs) == 1:
            return self.runs[0].files
        return tuple(file for run in self.runs for file in run.files)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def is_raw(self) -> bool:
        """True when the rows can be read as they are: one run, and no deletes."""
        return len(self.runs) == 1 and not any(may_hold_deletes(file) for file in self.runs[0].files)


def may_hold_deletes(file: DataFileMeta) -> bool:
    """False when no row of the file is a delete. An unknown number counts as deletes.

    Every file of level 0 counts too: pypaimon 2.1 records no deletes for its files even if they hold some.
    """
    return file.level == 0 or file.delete_row_count != 0


def highest_level(options: Mapping[str, str], levels: Iterable[int]) -> int:
    """The highest level of a bucket with files on `levels`: that of the options, or of a file above it."""
    count = NUM_LEVELS.of(options) or NUM_SORTED_RUNS_TRIGGER.of(options) + 1
    return max([count - 1, *levels])


def runs_of(files: Iterable[DataFileMeta], key_types: Sequence[DataType]) -> tuple[SortedRun, ...]:
    """The sorted runs of a bucket's files, youngest first. Raises CorruptDataError when a level's files overlap."""
    order = key_order(key_types)
    by_level: defaultdict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        by_level[file.level].append(file)
    runs = [SortedRun(level=0, files=(file,)) for file in sorted(by_level.pop(0, ()), key=_newest_first)]
    for level in sorted(by_level):
        in_key_order = sorted(by_level[level], key=lambda file: order(file.min_key))
        runs.append(SortedRun(level=level, files=tuple(in_key_order)))
    check_runs_disjoint(runs, key_types)
    return tuple(runs)


def check_runs_disjoint(runs: Iterable[SortedRun], key_types: Sequence[DataType]) -> None:
    """Raise CorruptDataError for the first run whose files overlap in key range."""
    order = key_order(key_types)
    for run in runs:
        for left, right in itertools.pairwise(run.files):
            if order(left.max_key) >= order(right.min_key):
                raise _overlap(left, right)


def sections_of(runs: Sequence[SortedRun], key_types: Sequence[DataType]) -> tuple[Section, ...]:
    """Split runs into sections, in key order. A run's files go to the sections that their key ranges fall into."""
    order = key_order(key_types)
    ranged = [
        (order(file.min_key), order(file.max_key), index, file) for index, run in enumerate(runs) for file in run.files
    ]
    ranged.sort(key=lambda item: (item[0], item[1]))
    sections: list[dict[int, list[DataFileMeta]]] = []
    end: Comparable | None = None
    for low, high, index, file in ranged:
        if end is None or low > end:
            sections.append({})
        end = high if end is None else max(end, high)
        sections[-1].setdefault(index, []).append(file)
    return tuple(
        Section(runs=tuple(SortedRun(level=runs[index].level, files=tuple(part[index])) for index in sorted(part)))
        for part in sections
    )


def sections_of_files(files: Iterable[DataFileMeta], key_types: Sequence[DataType]) -> tuple[Section, ...]:
    """The sections of a bucket's files, in key order: `sections_of` their runs, with each key decoded once.

    Raises CorruptDataError when a level's files overlap.
    """
    order = key_order(key_types)
    ranged = [(order(file.min_key), order(file.max_key), file) for file in files]
    ranged.sort(key=_by_range)
    parts: list[list[DataFileMeta]] = []
    end: Comparable | None = None
    last_of_level: dict[int, tuple[Comparable, DataFileMeta]] = {}
    for low, high, file in ranged:
        if file.level > 0:
            before = last_of_level.get(file.level)
            if before is not None and before[0] >= low:
                raise _overlap(before[1], file)
            last_of_level[file.level] = (high, file)
        if end is None or low > end:
            parts.append([file])
            end = high
        else:
            parts[-1].append(file)
            end = max(end, high)
    return tuple([_section_of(part) for part in parts])


def _section_of(files: Sequence[DataFileMeta]) -> Section:
    """A section of files in key order."""
    if len(files) == 1:
        return Section(runs=(SortedRun(level=files[0].level, files=(files[0],)),))
    young = sorted((file for file in files if file.level == 0), key=_newest_first)
    by_level: defaultdict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        if file.level > 0:
            by_level[file.level].append(file)
    older = (SortedRun(level=level, files=tuple(by_level[level])) for level in sorted(by_level))
    return Section(runs=(*(SortedRun(level=0, files=(file,)) for file in young), *older))


def _by_range(ranged: tuple[Comparable, Comparable, DataFileMeta]) -> tuple[Comparable, Comparable]:
    return ranged[0], ranged[1]


def _overlap(left: DataFileMeta, right: DataFileMeta) -> CorruptDataError:
    return CorruptDataError(
        f"files {left.file_name} and {right.file_name} of level {left.level} overlap in key range; "
        "a level above 0 must hold each key once"
    )


def _newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    return -file.max_sequence_number, file.min_sequence_number, file.creation_time_millis or 0, file.file_name
