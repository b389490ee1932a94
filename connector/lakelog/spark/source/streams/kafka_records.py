"""The records of a foreign topic as a Spark stream: a source in Python, without a connector jar.

The columns are those of Spark's own Kafka source, and the id of the topic. Each Kafka partition is one partition of a
batch, so records of a key keep their order. The settings of the client are in the source's class, not in Spark's
options, since plans show options.

Offsets are {"kafka": 1, "topic": name, "id": topic id, "offsets": {partition: next offset}}. `initialOffset` is a name,
`earliest` or `latest`: Spark asks for it again after a crash in the first batch, so the first batch reads nothing and
ends at the offsets that the name stands for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any  # Any: offsets are JSON objects

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.json_fields import COUNT, member, number_of, optional, string, whole
from lakelog.common.patience import Patience
from lakelog.common.quoting import CAUSE_MAX, cause, cut
from lakelog.spark.failures import sentence_first
from lakelog.spark.types import spark_arrow_schema

OFFSET_MARK = "kafka"
OFFSET_VERSION = 1
RECORD_SCHEMA = spark.StructType(
    [
        spark.StructField("key", spark.BinaryType()),
        spark.StructField("value", spark.BinaryType()),
        spark.StructField("topic", spark.StringType(), False),
        spark.StructField("partition", spark.IntegerType(), False),
        spark.StructField("offset", spark.LongType(), False),
        spark.StructField("timestamp", spark.TimestampType()),
        spark.StructField("topic_id", spark.StringType(), False),
    ]
)
STARTS = ("earliest", "latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecords:
    """Which records a stream reads. It is sent to Spark's processes; `client_config` may hold secrets."""

    client_config: Mapping[str, str]
    topic: str
    starting_offsets: str = "earliest"
    rows_max: int | None = None
    fails_on_data_loss: bool = True
    unavailable_seconds: float = 120.0

    def __repr__(self) -> str:
        return f"KafkaRecords(topic={self.topic!r})"

    @property
    def format_name(self) -> str:
        """A unique name for these settings, which shows none of them."""
        text = json.dumps([dict(self.client_config), self.topic, self.starting_offsets, self.rows_max])
        return f"lakelog_records_{hashlib.sha256(f'{text}{self.fails_on_data_loss}'.encode()).hexdigest()[:16]}"

    def load(self, session: SparkSession) -> DataFrame:
        """The stream of the records."""
        records = self

        class RecordsSource(DataSource):
            @classmethod
            def name(cls) -> str:
                return records.format_name

            def schema(self) -> spark.StructType:
                return RECORD_SCHEMA

            def streamReader(self, schema: spark.StructType) -> DataSourceStreamReader:  # noqa: ARG002  # it has one
                return RecordsReader(records)

        try:
            session.dataSource.register(RecordsSource)
        except AnalysisException as error:  # the same settings were read before in this session
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
        return session.readStream.format(records.format_name).load()


class RangePartition(InputPartition):
    """The records of one Kafka partition in [start, end)."""

    def __init__(self, topic_id: str, number: int, start: int, end: int) -> None:
        super().__init__((number, start, end))
        self.topic_id, self.number, self.start, self.end = topic_id, number, start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsOffset:
    """How far the topic is read. Without `offsets` nothing is read yet, and `start` says where to begin."""

    start: str | None = None
    topic_id: str | None = None
    offsets: Mapping[int, int]


class RecordsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches of a topic, and reads them."""

    def __init__(self, records: KafkaRecords) -> None:
        self._records = records
        self._head: Any = None  # a ForeignHead, once it is needed; it is not pickled

    def __getstate__(self) -> KafkaRecords:
        return self._records

    def __setstate__(self, records: KafkaRecords) -> None:
        self._records = records
        self._head = None

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        """A name, always the same."""
        return {
            OFFSET_MARK: OFFSET_VERSION,
            "topic": self._records.topic,
            "start": self._records.starting_offsets,
        }

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the settings."""
        limit = self._records.rows_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the batch that begins at `start`."""
        begun = offset_of_json(start, self._records.topic)
        head = self._head_of(begun)
        patience = Patience(self._records.unavailable_seconds)
        if begun.start is not None:
            ends = patience.keep_trying(head.starts if begun.start == "earliest" else head.ends)
            return self._to_json(head.topic_id, ends)
        ends = patience.keep_trying(head.ends)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._to_json(head.topic_id, take_offsets(begun.offsets, ends, rows_max))

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        """Read up to what exists now, and no further."""
        head = self._head_of(RecordsOffset(offsets={}))
        Patience(self._records.unavailable_seconds).keep_trying(head.fix)

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One range per Kafka partition. Raises LogTruncatedError for records that Kafka has deleted."""
        begun, ended = (offset_of_json(one, self._records.topic) for one in (start, end))
        if begun.start is not None:
            return []
        wanted = {at: (begun.offsets.get(at, 0), to) for at, to in sorted(ended.offsets.items())}
        ranges = {at: one for at, one in wanted.items() if one[1] > one[0]}
        if not ranges:
            return []
        from lakelog.logstore.kafka.records.foreign_topic import deleted_records  # noqa: PLC0415  # needs the extra

        head = self._head_of(begun)
        starts = Patience(self._records.unavailable_seconds).keep_trying(head.starts)
        found: list[InputPartition] = []
        for at, (first, to) in ranges.items():
            oldest = starts.get(at, 0)
            if oldest > first and at in begun.offsets and self._records.fails_on_data_loss:
                raise deleted_records(head.topic, at, first, oldest)
            if max(first, oldest) < to:
                found.append(RangePartition(head.topic_id, at, max(first, oldest), to))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range, in a worker."""
        with sentence_first():
            if isinstance(partition, RangePartition):
                yield from read_records(
                    self._records, partition.topic_id, partition.number, partition.start, partition.end
                )

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint has the offsets of a finished batch."""

    def stop(self) -> None:
        """Do nothing: nothing is open between batches."""

    def _head_of(self, begun: RecordsOffset) -> Any:
        from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic  # noqa: PLC0415  # likewise
        from lakelog.logstore.kafka.records.foreign_topic import ForeignHead  # noqa: PLC0415  # needs the extra

        if self._head is None:
            topic = KafkaTopic(client_config=self._records.client_config, name=self._records.topic)
            self._head = ForeignHead(topic, begun.topic_id)
        if begun.topic_id is not None:
            self._head.expect(begun.topic_id)
        return self._head

    def _to_json(self, topic_id: str | None, offsets: Mapping[int, int]) -> dict[str, Any]:
        return {
            OFFSET_MARK: OFFSET_VERSION,
            "topic": self._records.topic,
            "id": topic_id,
            "offsets": {str(at): offsets[at] for at in sorted(offsets)},
        }


def take_offsets(start: Mapping[int, int], ends: Mapping[int, int], rows_max: int | None) -> dict[int, int]:
    """The end of a batch of at most `rows_max` offsets: each partition advances by its share of what exists. Pure.

    A partition that the start lacks is new, and begins at 0. An end before the start, as after an unclean election,
    moves nothing.
    """
    ready = {at: max(end - start.get(at, 0), 0) for at, end in ends.items()}
    total = sum(ready.values())
    taken = dict(start)
    for at, count in sorted(ready.items()):
        share = count if rows_max is None or total <= rows_max else -(-count * rows_max // total)
        taken[at] = start.get(at, 0) + min(share, count)
    return taken


def offset_of_json(fields: Mapping[str, Any], topic: str) -> RecordsOffset:
    """Parse an offset of the checkpoint. Raises InvalidRequestError for that of another topic, CorruptDataError."""
    try:
        if fields[OFFSET_MARK] != OFFSET_VERSION:
            raise ValueError(f"version {fields[OFFSET_MARK]}, expected {OFFSET_VERSION}")
        found = string(fields, "topic")
        if found != topic:
            raise InvalidRequestError(
                f"the checkpoint has read topic {cut(found)}, the stream reads {topic}: use a checkpoint location for"
                " each topic"
            )
        if "offsets" not in fields:
            start = string(fields, "start")
            if start not in STARTS:
                raise ValueError(f"start {cut(start)}")
            return RecordsOffset(start=start, offsets={})
        offsets = member(fields, "offsets")
        return RecordsOffset(
            topic_id=optional(string, fields, "id"),
            offsets={number_of(at, COUNT): whole(offsets, at, COUNT) for at in offsets},
        )
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"the source offset {cut(str(dict(fields)), CAUSE_MAX)} in the checkpoint is not readable: {cause(error)}"
        ) from error


def read_records(records: KafkaRecords, topic_id: str, number: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The committed records of a range as Spark takes them."""
    from lakelog.logstore.errors import LogTruncatedError  # noqa: PLC0415  # the worker imports what it needs
    from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic  # noqa: PLC0415  # likewise
    from lakelog.logstore.kafka.clients.offsets import log_start_offset  # noqa: PLC0415  # likewise
    from lakelog.logstore.kafka.records.foreign_topic import deleted_records, read_foreign  # noqa: PLC0415  # needs the extra

    topic = KafkaTopic(client_config=records.client_config, name=records.topic)
    schema = spark_arrow_schema(RECORD_SCHEMA)
    try:
        patience = Patience(records.unavailable_seconds)
        for raw in read_foreign(topic.partition(number), start=start, end=end, patience=patience):
            count = len(raw.offsets)
            millis = pa.array(raw.timestamps, pa.int64())
            columns = [
                pa.array(raw.keys, pa.binary()),
                pa.array(raw.values, pa.binary()),
                pa.array([records.topic] * count, pa.string()),
                pa.array([number] * count, pa.int32()),
                pa.array(raw.offsets, pa.int64()),
                millis.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
                pa.array([topic_id] * count, pa.string()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except LogTruncatedError as error:
        oldest = log_start_offset(topic.partition(number)).offset
        raise deleted_records(topic, number, start, oldest) from error
