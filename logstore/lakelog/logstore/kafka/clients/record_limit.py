"""The largest record of a topic, and checks of rows and records against it before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.codec.log_codec import codec_of
from lakelog.logstore.kafka.clients.clients import Key, config_key
from lakelog.logstore.kafka.clients.kafka_errors import servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import TopicDescription, describe_topic
from lakelog.logstore.options import ChangelogMode, LogFormat

COMMIT_HEADER = "lakelog-commit"

# Kafka's limit counts a record batch with its framing: 61 bytes of the batch and at most 30 of a record.
_FRAMING_BYTES = 128
# Reserved in every record for its headers: the commit header of the first record at least names a file that has the
# full header.
HEADER_BYTES = 256
_ENVELOPE_BYTES = 64  # `{"before":null,"after":,"op":"c"}` and more
# The most bytes of a value of a plain type as JSON, with its quotes and comma; a byte of a string has at most six.
_PLAIN_VALUE_BYTES = 64
_ESCAPED_BYTES = 6

_topics: dict[Key, TopicDescription] = {}
_topics_lock = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimit:
    """The limit of a topic: `record_bytes` for key and value of a record, with room for a small commit header."""

    topic: str
    servers: str
    partition_count: int
    message_bytes: int
    format: LogFormat = LogFormat.DEBEZIUM_JSON

    @property
    def record_bytes(self) -> int:
        """The most bytes of a record."""
        return self.message_bytes - _FRAMING_BYTES - HEADER_BYTES

    def header_room(self, records: EncodedRecords) -> int:
        """The most bytes of the commit header of these records."""
        is_first = bool(len(records)) and not records.has_header_record
        first_bytes = len(records.value(0)) + len(records.key(0) or b"") if is_first else 0
        return self.message_bytes - _FRAMING_BYTES - len(COMMIT_HEADER) - first_bytes

    def check(self, records: EncodedRecords) -> None:
        """Raise InvalidRequestError, naming the key, for a record that the topic would refuse. No I/O."""
        if len(records):
            key = records.key(records.largest)
            size_bytes = len(records.value(records.largest)) + len(key or b"")
            if size_bytes > self.record_bytes:
                raise self.error(key, size_bytes)

    def check_changes(
        self,
        rows: pa.Table,
        kinds: pa.Array | pa.ChunkedArray | None,
        fields: Sequence[DataField],
        key_fields: Sequence[str],
        mode: ChangelogMode,
    ) -> None:
        """As `check` for the records of these changes, which are encoded only if one may be too large."""
        images = 2  # old and new row of an update
        if rows.num_rows and images * _bytes_at_most(rows) > self.record_bytes:
            encode = codec_of(self.format).encode_changes
            self.check(encode(rows, kinds, fields, key_fields, mode, update_bytes_max=self.record_bytes))

    def error(self, key: bytes | None, size_bytes: int | None) -> InvalidRequestError:
        """The error for a record that is too large; `key` and `size_bytes` are None if unknown."""
        which = "a record" if key is None else f"the record with key {key.decode(errors='replace')[:200]}"
        size = "too many" if size_bytes is None else str(size_bytes)
        return InvalidRequestError(
            f"topic {self.topic} at {self.servers}: {which} has {size} bytes, the topic takes {self.record_bytes}; "
            "raise its max.message.bytes, or write smaller rows"
        )


def record_limit(topic: KafkaTopic) -> RecordLimit:
    """The limit of the topic, read once per process; a producer fails if the limit has been changed since.

    Raises NotFoundError, UnavailableError.
    """
    key = (topic.name, *config_key(topic.client_config))
    with _topics_lock:
        known = _topics.get(key)
    if known is None:
        known = describe_topic(topic)
        with _topics_lock:
            _topics[key] = known
    return RecordLimit(
        topic=topic.name,
        servers=servers_of(topic.client_config),
        partition_count=known.partition_count,
        message_bytes=known.max_message_bytes,
        format=topic.format,
    )


def _bytes_at_most(rows: pa.Table) -> int:
    """An upper bound of the bytes of a record of these rows, from the longest string of each column."""
    return _ENVELOPE_BYTES + sum(
        _ESCAPED_BYTES * len(name.encode()) + _value_bytes_at_most(values)
        for name, values in zip(rows.column_names, rows.columns, strict=True)
    )


def _value_bytes_at_most(values: pa.ChunkedArray) -> int:
    types = pa.types
    if types.is_nested(values.type):
        return _PLAIN_VALUE_BYTES * int(values.nbytes)
    if types.is_string(values.type) or types.is_binary(values.type):
        return _PLAIN_VALUE_BYTES + _ESCAPED_BYTES * int(pc.max(pc.binary_length(values)).as_py() or 0)
    if types.is_fixed_size_binary(values.type):
        return _PLAIN_VALUE_BYTES + _ESCAPED_BYTES * int(values.type.byte_width)
    return _PLAIN_VALUE_BYTES
