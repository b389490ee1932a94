"""What a batch of foreign records became, in numbers: each task counts its records, the driver adds the counts up."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any  # Any: parsed JSON

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakelog.catalog import Table
from lakelog.common.arrow import to_arrow_field
from lakelog.common.json_fields import items, member, parse_object, whole
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, parse_type, type_to_json
from lakelog.logstore.codec.foreign_rules import joined_type
from lakelog.spark.failures import error_of

logger = logging.getLogger("lakelog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """Where a bad record is, and why it is bad."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What some records became: `input` of them were read; `accepted` and `dead` add up to it.

    `kept` of the dead ones are dead letters since an earlier attempt of the batch. `unavailable` rows lack an old
    value,
    `truncations` is the last offset at which the table is truncated.
    """

    input: int = 0
    accepted: int = 0
    dead: int = 0
    kept: int = 0
    rows: int = 0
    unavailable: tuple[str, ...] = ()
    truncation: int | None = None
    new_columns: Mapping[str, DataType] = field(default_factory=dict)
    first_bad: BadRecord | None = None

    def __add__(self, other: Counts) -> Counts:
        new_columns = dict(self.new_columns)
        for name, kind in other.new_columns.items():
            new_columns[name] = joined_type(new_columns.get(name), kind)
        return Counts(
            input=self.input + other.input,
            accepted=self.accepted + other.accepted,
            dead=self.dead + other.dead,
            kept=self.kept + other.kept,
            rows=self.rows + other.rows,
            unavailable=tuple(dict.fromkeys((*self.unavailable, *other.unavailable))),
            truncation=max((one for one in (self.truncation, other.truncation) if one is not None), default=None),
            new_columns=new_columns,
            first_bad=self.first_bad or other.first_bad,
        )

    def with_new_columns(self, table: Table) -> Table:
        """The table after the columns that it lacked were added, nullable, in one schema change."""
        fields = [DataField(id=0, name=name, type=kind) for name, kind in self.new_columns.items()]
        logger.info("table %s gets the column(s) %s", table.name, listed(self.new_columns))
        return table._with_new_columns(pa.schema([*table.schema.arrow_schema, *map(to_arrow_field, fields)]))

    def to_json(self) -> str:
        """One line, as it travels to the driver."""
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
                "first_bad": None if bad is None else [bad.topic, bad.partition, bad.offset, bad.reason],
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
            first_bad=None if bad is None else BadRecord(topic=bad[0], partition=bad[1], offset=bad[2], reason=bad[3]),
        )


def counted(decoded: DataFrame) -> tuple[DataFrame, Counts]:
    """What a decoder gave, kept in Spark, and its counts. This is the only pass over the records."""
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
    return decoded, counts
