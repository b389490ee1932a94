"""The rules that pick runs of a bucket to merge. Pure: no clock, no disk, no options object.

Runs go from youngest to oldest. Source: Paimon spec, "Compaction"; Paimon, `UniversalCompaction`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import SortedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactUnit:
    """The youngest runs of a bucket, to be merged into one run of `output_level`; `older` are those left out."""

    inputs: tuple[SortedRun, ...]
    output_level: int
    older: tuple[SortedRun, ...] = ()

    @property
    def drops_deletes(self) -> bool:
        """Whether delete rows can be dropped, because no older run can hold their keys."""
        return not self.older


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRules:
    """The limits of the rules. Percents are of bytes; None switches a rule off.

    From `trigger` runs on: all of them if the younger ones are larger than `amplification_percent_max` of the oldest,
    runs of similar size (`ratio_percent`), or as many as are above the trigger. With any number of runs: all of them if
    they are smaller than `total_bytes_small`, if those below the highest level are larger than `younger_bytes_max`, or
    if `is_full_due`. `lifts_level0` merges every level-0 file at once, whatever their number.
    """

    trigger: int
    amplification_percent_max: int
    ratio_percent: int
    level_max: int
    total_bytes_small: int | None = None
    younger_bytes_max: int | None = None
    is_full_due: bool = False
    lifts_level0: bool = False


def pick_full(runs: Sequence[SortedRun], *, level_max: int, marked: Collection[str] = ()) -> CompactUnit | None:
    """Merge every run; None if there is nothing to merge or to drop.

    `marked` are the names of files that have deletion vectors, whose rows a rewrite drops.
    """
    return None if not runs or _is_settled(runs, level_max, marked) else _unit(runs, len(runs), level_max)


def _is_settled(runs: Sequence[SortedRun], level_max: int, marked: Collection[str]) -> bool:
    """Whether all rows are in one run of the highest level, without deleted rows."""
    *younger, oldest = runs
    has_deleted = oldest.may_hold_deletes or any(file.file_name in marked for file in oldest.files)
    return not younger and oldest.level == level_max and not has_deleted


def pick_universal(runs: Sequence[SortedRun], rules: PickRules) -> CompactUnit | None:
    """The first rule that applies: early full merges, space, sizes, the number of runs, level 0 if it must be empty."""
    trigger, ratio, level_max = rules.trigger, rules.ratio_percent, rules.level_max
    return (
        pick_early_full(runs, rules)
        or pick_for_space_amp(runs, trigger=trigger, percent_max=rules.amplification_percent_max, level_max=level_max)
        or pick_for_size_ratio(runs, trigger=trigger, percent=ratio, level_max=level_max)
        or pick_for_run_count(runs, trigger=trigger, percent=ratio, level_max=level_max)
        or (pick_level0(runs, percent=ratio, level_max=level_max) if rules.lifts_level0 else None)
    )


def pick_early_full(runs: Sequence[SortedRun], rules: PickRules) -> CompactUnit | None:
    """Merge every run before the trigger is reached, by the options for early full merges."""
    if len(runs) < 2:
        return None
    younger = sum(run.size_bytes for run in runs if run.level < rules.level_max)
    total = sum(run.size_bytes for run in runs)
    is_small = rules.total_bytes_small is not None and total < rules.total_bytes_small
    is_grown = rules.younger_bytes_max is not None and younger > rules.younger_bytes_max
    return _unit(runs, len(runs), rules.level_max) if rules.is_full_due or is_small or is_grown else None


def pick_level0(runs: Sequence[SortedRun], *, percent: int, level_max: int) -> CompactUnit | None:
    """Merge all files of level 0, and the runs behind them while they are of similar size."""
    count = sum(run.level == 0 for run in runs)
    return _unit(runs, _grow(runs, count, percent), level_max) if count else None


def pick_for_space_amp(
    runs: Sequence[SortedRun], *, trigger: int, percent_max: int, level_max: int
) -> CompactUnit | None:
    """Merge every run once the younger ones are larger than `percent_max` percent of the oldest."""
    if len(runs) < max(trigger, 2):
        return None
    *younger, oldest = runs
    if sum(run.size_bytes for run in younger) * 100 <= oldest.size_bytes * percent_max:
        return None
    return _unit(runs, len(runs), level_max)


def pick_for_size_ratio(runs: Sequence[SortedRun], *, trigger: int, percent: int, level_max: int) -> CompactUnit | None:
    """Merge the youngest runs while the next one is at most `percent` percent larger than all before it together."""
    if len(runs) < trigger:
        return None
    count = _grow(runs, 1, percent)
    return _unit(runs, count, level_max) if count > 1 else None


def pick_for_run_count(runs: Sequence[SortedRun], *, trigger: int, percent: int, level_max: int) -> CompactUnit | None:
    """Merge as many of the youngest runs as are above the trigger, of any size."""
    if len(runs) <= trigger:
        return None
    return _unit(runs, _grow(runs, len(runs) - trigger + 1, percent), level_max)


def pick_small_files(files: Sequence[DataFileMeta], *, small_bytes: int, count_min: int) -> CompactUnit | None:
    """The first `count_min` or more consecutive small files of a table without primary key.

    Their rows stay in order, so a large file ends the unit. The files are ordered by their sequence numbers.
    """
    taken: list[DataFileMeta] = []
    for file in sorted(files, key=lambda file: (file.min_sequence_number, file.file_name)):
        if file.file_size_bytes < small_bytes:
            taken.append(file)
        elif len(taken) >= count_min:
            break
        else:
            taken = []
    if len(taken) < count_min:
        return None
    return CompactUnit(inputs=(SortedRun(level=0, files=tuple(taken)),), output_level=0)


def _grow(runs: Sequence[SortedRun], count: int, percent: int) -> int:
    """How many runs join, starting from the first `count`."""
    size = sum(run.size_bytes for run in runs[:count])
    for run in runs[count:]:
        is_too_big = size * (100 + percent) < run.size_bytes * 100
        if is_too_big and not (count > 1 and run.level <= 1):
            break
        size += run.size_bytes
        count += 1
    return count


def _unit(runs: Sequence[SortedRun], count: int, level_max: int) -> CompactUnit:
    """The unit of the first `count` runs: its output level is one below the next run's, and never level 0."""
    output_level = runs[count].level - 1 if count < len(runs) else level_max
    if output_level <= 0:
        output_level = 0
        for run in runs[count:]:
            count += 1
            if run.level != 0:
                output_level = run.level
                break
    if count == len(runs):
        output_level = level_max
    return CompactUnit(inputs=tuple(runs[:count]), output_level=output_level, older=tuple(runs[count:]))
