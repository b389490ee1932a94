"""The counts of a batch of foreign records: each task counts its records, the driver adds the counts up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar  # Any: parsed JSON

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import items, member, parse_object, whole
from lakelog.common.types import DataType, parse_type, type_to_json
from lakelog.logstore.codec.foreign_forms import OddTime
from lakelog.logstore.codec.foreign_members import MemberPath, shown_path
from lakelog.logstore.codec.foreign_rules import joined_type
from lakelog.spark.failures import error_of

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """Where a bad record is, and why it is bad."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of some records: `input` were read; `accepted` and `dead` add up to `input`.

    `kept` counts dead records that became dead letters in an earlier attempt of the batch. `unavailable` counts rows
    that lack an old value, `truncation` is the last offset at which the table is truncated. `left_out` counts values of
    members that the table's nested columns lack. `odd_times` and `plain_times` are those of `AssumedTimes`.
    """

    input: int = 0
    accepted: int = 0
    dead: int = 0
    kept: int = 0
    rows: int = 0
    unavailable: tuple[str, ...] = ()
    truncation: int | None = None
    new_columns: Mapping[str, DataType] = field(default_factory=dict)
    new_members: Mapping[MemberPath, DataType] = field(default_factory=dict)
    left_out: int = 0
    first_bad: BadRecord | None = None
    odd_times: Mapping[MemberPath, OddTime] = field(default_factory=dict)
    plain_times: frozenset[MemberPath] = frozenset()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            input=self.input + other.input,
            accepted=self.accepted + other.accepted,
            dead=self.dead + other.dead,
            kept=self.kept + other.kept,
            rows=self.rows + other.rows,
            unavailable=tuple(dict.fromkeys((*self.unavailable, *other.unavailable))),
            truncation=max((one for one in (self.truncation, other.truncation) if one is not None), default=None),
            new_columns=_joined(self.new_columns, other.new_columns),
            new_members=_joined(self.new_members, other.new_members),
            left_out=self.left_out + other.left_out,
            first_bad=self.first_bad or other.first_bad,
            odd_times={**other.odd_times, **self.odd_times},
            plain_times=self.plain_times | other.plain_times,
        )

    @property
    def has_new(self) -> bool:
        """Whether the table lacks columns, or members of columns, that are to be added."""
        return bool(self.new_columns or self.new_members)

    def to_json(self) -> str:
        """One line of JSON, as it is sent to the driver."""
        bad = self.first_bad
        return json.dumps(
            {
                "input": self.input,
                "accepted": self.accepted,
                "dead": self.dead,
                "kept": self.kept,
                "rows": self.rows,
                "unavailable": list(self.unavailable),
                "truncation": self.truncation,
                "new_columns": {name: type_to_json(kind) for name, kind in self.new_columns.items()},
                "new_members": [[list(path), type_to_json(kind)] for path, kind in self.new_members.items()],
                "left_out": self.left_out,
                "first_bad": None if bad is None else [bad.topic, bad.partition, bad.offset, bad.reason],
                "odd_times": [[list(path), odd.number, odd.unit] for path, odd in self.odd_times.items()],
                "plain_times": [list(path) for path in self.plain_times],
            }
        )

    @classmethod
    def of_json(cls, text: str) -> Counts:
        """Parse what a task has sent."""
        found: Mapping[str, Any] = parse_object(text)
        bad = found["first_bad"]
        return cls(
            input=whole(found, "input"),
            accepted=whole(found, "accepted"),
            dead=whole(found, "dead"),
            kept=whole(found, "kept"),
            rows=whole(found, "rows"),
            unavailable=tuple(items(found, "unavailable")),
            truncation=found["truncation"],
            new_columns={name: parse_type(kind) for name, kind in member(found, "new_columns").items()},
            new_members={tuple(path): parse_type(kind) for path, kind in items(found, "new_members")},
            left_out=whole(found, "left_out"),
            first_bad=None if bad is None else BadRecord(topic=bad[0], partition=bad[1], offset=bad[2], reason=bad[3]),
            odd_times={tuple(path): OddTime(number=n, unit=unit) for path, n, unit in items(found, "odd_times")},
            plain_times=frozenset(map(tuple, items(found, "plain_times"))),
        )


def _joined(one: Mapping[Name, DataType], other: Mapping[Name, DataType]) -> dict[Name, DataType]:
    joined = dict(one)
    for name, kind in other.items():
        joined[name] = joined_type(joined.get(name), kind)
    return joined


def counted(decoded: DataFrame, table: Table) -> tuple[DataFrame, Counts]:
    """The output of a decoder, persisted in Spark, and its counts. This is the only pass over the records.

    Raises InvalidRequestError if the times of a column can only have another unit than the one that was assumed.
    """
    decoded = decoded.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = decoded.where(sf.col("summary").isNotNull()).select("summary").collect()
    except Exception as error:
        decoded.unpersist()
        ours = error_of(error)
        if ours is None:
            raise
        raise ours from None
    counts = Counts()
    for row in found:
        counts += Counts.of_json(row.summary)
    try:
        _check_units(counts, table)
    except InvalidRequestError:
        decoded.unpersist()
        raise
    return decoded, counts


def _check_units(counts: Counts, table: Table) -> None:
    for path, odd in counts.odd_times.items():
        if path not in counts.plain_times:
            name = shown_path(path)
            raise InvalidRequestError(
                f"table {table.name}: all times of column {name!r} in the batch are within a month of 1970-01-01, or"
                f" beyond the year 9999, for example {odd.number} as a number of {odd.unit}, the unit that was assumed,"
                " since no schema says it. Nothing of the batch is written. Say which numbers the connector writes:"
                f" time_precision_mode, or time_units={{{name!r}: 'ms'}} for this column; also"
                f" time_units={{{name!r}: {odd.unit!r}}} if these times are right"
            )
