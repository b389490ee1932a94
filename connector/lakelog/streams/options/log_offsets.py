"""Offsets of the log as options give them: with the words and numbers of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import COUNT, number_of, parse_object, whole
from lakelog.common.quoting import shown

_EARLIEST_NUMBER, _LATEST_NUMBER = -2, -1
_CHOICES = range(_EARLIEST_NUMBER, COUNT.stop)
OFFSETS_KIND = 'earliest, latest or JSON of an offset a bucket, such as {"0": 12, "1": -2}'


class Edge(Enum):
    """An end of the log. The values are the words and the numbers that Spark's Kafka source has for it."""

    EARLIEST = ("earliest", _EARLIEST_NUMBER)
    LATEST = ("latest", _LATEST_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOffsets:
    """Offsets as an option gives them: one edge for all buckets, or an offset or an edge for each.

    `topic` is the topic that the option names, None when it names none.
    """

    all_buckets: Edge | None = None
    of_bucket: Mapping[int, int | Edge] = field(default_factory=dict)
    topic: str | None = None

    @property
    def edges(self) -> set[Edge]:
        """The edges of the log that are asked for."""
        found = {choice for choice in self.of_bucket.values() if isinstance(choice, Edge)}
        return found if self.all_buckets is None else {self.all_buckets}

    def is_edge(self, bucket: int) -> bool:
        """Whether an edge of the log is asked for in a bucket."""
        return self.all_buckets is not None or isinstance(self.of_bucket.get(bucket), Edge)

    def resolved(
        self, key: str, *, topic: str, earliest: Mapping[int, int], latest: Mapping[int, int]
    ) -> dict[int, int]:
        """Bucket -> offset, with log edges resolved. Pure. Raises InvalidRequestError for other buckets or topics.

        `key` is the option, for errors; `earliest` and `latest` have every bucket of the table.
        """
        edges = {Edge.EARLIEST: earliest, Edge.LATEST: latest}
        if self.all_buckets is not None:
            return dict(edges[self.all_buckets])
        if self.topic not in (None, topic):
            raise InvalidRequestError(f"option {key!r} names the topic {shown(self.topic)}, the table has {topic!r}")
        if self.of_bucket.keys() != latest.keys():
            raise InvalidRequestError(
                f"option {key!r} names the buckets {_listed(self.of_bucket)}, the table has {_listed(latest)}: give "
                "each one an offset; -2 is the earliest, -1 the latest"
            )
        return {
            bucket: edges[choice][bucket] if isinstance(choice, Edge) else choice
            for bucket, choice in sorted(self.of_bucket.items())
        }


def _listed(buckets: Mapping[int, object]) -> str:
    return ", ".join(map(str, sorted(buckets))) or "none"


def parse_offsets(text: str) -> GivenOffsets:
    """Offsets of an option. Raises ValueError. Source: Spark's Kafka source, `startingOffsets`."""
    word = text.strip()
    for edge in Edge:
        if word.lower() == edge.value[0]:
            return GivenOffsets(all_buckets=edge)
    fields = parse_object(word)
    topic = None
    if len(fields) == 1 and isinstance(inner := next(iter(fields.values())), dict):
        (topic,), fields = fields, inner
    return GivenOffsets(of_bucket={number_of(key): _choice(fields, key) for key in fields}, topic=topic)


def _choice(fields: Mapping[str, object], key: str) -> int | Edge:
    number = whole(fields, key, _CHOICES)
    return next((edge for edge in Edge if edge.value[1] == number), number)
