"""The flights as a stream of changes, in the order in which they happened.

Each flight is a short life:

| when | row kinds | status |
|---|---|---|
| 24 h before the scheduled departure | +I | scheduled |
| departure = scheduled + dep_delay | -U +U | departed |
| arrival = departure + air_time | -U +U | arrived |
| cancelled (no dep_time): at the scheduled departure | -D, with the full old row | |

What missing times mean: a flight without dep_time was cancelled; one that departed and has no air_time was diverted
or its arrival was never recorded: it stays `departed`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from demo.flights import TABLE_SCHEMA
from lakelog.common.types import ROW_KIND_COLUMN, RowKind

_AT = "_at"  # when the change happened
_FLIGHT = "_flight"  # the flight's number in the file: settles the order of changes of the same minute
_KIND = "_kind"  # the RowKind's value: -U sorts right before its +U

_TIMES_OF_STATUS = {"scheduled": (), "departed": ("departed_at",), "arrived": ("departed_at", "arrived_at")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFile:
    """One Parquet file of the stream. `last_at` is the time of its last change; the next file starts later.

    `change_count` counts an update once, `row_count` its -U and its +U.
    """

    path: Path
    row_count: int
    change_count: int
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStream:
    """The flights as the CSV has them, which is where the truth comes from, and the files of their changes."""

    flights: pl.DataFrame
    files: Sequence[ChangeFile]

    @property
    def change_count(self) -> int:
        """The changes of all files."""
        return sum(file.change_count for file in self.files)


def make_changes(flights: pl.DataFrame) -> pl.DataFrame:
    """Every change of `flights` in event-time order: the columns of the table, `_row_kind`, and `_at`, its time."""
    scheduled_at = pl.col("time_hour") + pl.duration(minutes=pl.col("minute"))
    departed_at = scheduled_at + pl.duration(minutes=pl.col("dep_delay"))
    arrived_at = departed_at + pl.duration(minutes=pl.col("air_time"))
    lives = flights.with_row_index(_FLIGHT).with_columns(
        scheduled_at=scheduled_at, departed_at=departed_at, arrived_at=arrived_at
    )
    cancelled = lives.filter(pl.col("dep_time").is_null())
    left = lives.filter(pl.col("dep_time").is_not_null())
    landed = left.filter(pl.col("air_time").is_not_null())

    day_before = pl.col("scheduled_at") - pl.duration(hours=24)
    changes = pl.concat(
        [
            _images(lives, RowKind.INSERT, "scheduled", at=day_before),
            _images(left, RowKind.UPDATE_BEFORE, "scheduled", at=pl.col("departed_at")),
            _images(left, RowKind.UPDATE_AFTER, "departed", at=pl.col("departed_at")),
            _images(landed, RowKind.UPDATE_BEFORE, "departed", at=pl.col("arrived_at")),
            _images(landed, RowKind.UPDATE_AFTER, "arrived", at=pl.col("arrived_at")),
            _images(cancelled, RowKind.DELETE, "scheduled", at=pl.col("scheduled_at")),
        ]
    )
    return changes.sort(_AT, _FLIGHT, _KIND).select(*TABLE_SCHEMA.names, ROW_KIND_COLUMN, _AT)


def _images(flights: pl.DataFrame, kind: RowKind, status: str, *, at: pl.Expr) -> pl.DataFrame:
    """The rows of `flights` with `status`, as changes of `kind`; the times that `status` does not know are null."""
    unknown = {"departed_at", "arrived_at"}.difference(_TIMES_OF_STATUS[status])
    columns = [
        at.alias(_AT),
        pl.lit(kind.value, dtype=pl.UInt8).alias(_KIND),
        pl.lit(kind.short).alias(ROW_KIND_COLUMN),
        pl.lit(status).alias("status"),
        *(pl.lit(None, dtype=pl.Datetime("us", "UTC")).alias(name) for name in unknown),
    ]
    return flights.with_columns(columns).select(*TABLE_SCHEMA.names, ROW_KIND_COLUMN, _AT, _FLIGHT, _KIND)


def count_changes(changes: pl.DataFrame) -> int:
    """The number of changes; an update is one, although it has two rows."""
    return int((changes[ROW_KIND_COLUMN] != RowKind.UPDATE_BEFORE.short).sum())


def cut_points(changes: pl.DataFrame, file_count: int) -> Sequence[int]:
    """The ends (exclusive) of at most `file_count` pieces of about the same size.

    A cut never falls between two changes of the same time, so that the state after a piece is the state at a timestamp,
    and -U and +U stay together.
    """
    wanted = [changes.height * number // file_count for number in range(1, file_count)]
    # The end of the run of equal times that holds the row before the wanted cut.
    ends = changes[_AT].search_sorted(changes[_AT].gather([max(cut - 1, 0) for cut in wanted]), side="right")
    return sorted({*ends.to_list(), changes.height} - {0})


def write_change_files(changes: pl.DataFrame, folder: Path, *, file_count: int) -> list[ChangeFile]:
    """Write `changes` as Parquet files that Spark's file source takes one by one in this order.

    The order is that of the modification times, which grow by a second from file to file. Each file is one row group:
    one task reads it, so the order of its rows is kept.
    """
    folder.mkdir(parents=True)
    files: list[ChangeFile] = []
    start = 0
    for number, end in enumerate(cut_points(changes, file_count)):
        piece = changes.slice(start, end - start)
        path = folder / f"changes-{number:03d}.parquet"
        piece.drop(_AT).write_parquet(path, compression="snappy", row_group_size=piece.height, statistics=False)
        last_at = piece[_AT][-1]
        modified = 1_600_000_000 + number
        os.utime(path, (modified, modified))
        files.append(ChangeFile(path=path, row_count=piece.height, change_count=count_changes(piece), last_at=last_at))
        start = end
    return files
