"""Records given to librdkafka as an array that is filled in columns: no Python object for a record.

The batch call of confluent-kafka takes a dictionary of two `bytes` for each record, which costs as much as all that
librdkafka does with it. Here the same function of librdkafka, `rd_kafka_produce_batch`, gets the array of C structures
that it expects (`rd_kafka_message_t` in its rdkafka.h), whose pointers lead into the memory of the columns. librdkafka
copies what they point to before the call returns.

Everything else about the client stays with confluent-kafka. The one thing that it does not give is the address of its
client, which is read from the memory of its object: its first member in all releases from 2.13.0 to 2.16.1, by whose
address `rd_kafka_name` gave the configured name. So this way is taken only with versions for which that was tried, and
where the library that confluent-kafka has loaded is found. Elsewhere records go the usual way, see `batch_function`.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any  # Any: messages of confluent_kafka's batch call are dictionaries of mixed values

import confluent_kafka
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer

_TRIED_VERSIONS = ((2, 13), (2, 17))  # from, and below
_LIBRARIES = ("confluent_kafka.libs/librdkafka*", "confluent_kafka/.dylibs/librdkafka*")  # of Linux and macOS wheels
_COPY = 2  # RD_KAFKA_MSG_F_COPY

_logger = logging.getLogger("lakelog.kafka")

BatchFunction = Callable[[Producer, str, int, pa.ChunkedArray | None, pa.ChunkedArray], None]
"""Queues records of one partition in their order: the producer, topic, partition number, keys and values (`BINARY`).

Without keys all keys are null. Raises KafkaException for the first record that is refused; those before it are queued.
"""


class _Message(ctypes.Structure):
    """`rd_kafka_message_t` of librdkafka."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("_private", ctypes.c_void_p),
    )


_MESSAGE = np.dtype(_Message)


@cache
def batch_function() -> BatchFunction:
    """How this process queues records: as arrays where that is known to work, else as dictionaries."""
    library = _loaded_library()
    if library is None:
        _logger.info("records are given to the Kafka client one by one: arrays were not tried with its version")
        return produce_objects
    return _Librdkafka(library).produce


def produce_objects(
    producer: Producer, topic: str, partition: int, keys: pa.ChunkedArray | None, values: pa.ChunkedArray
) -> None:
    """The same with confluent-kafka's own batch call, see `BatchFunction`."""
    objects = [None] * len(values) if keys is None else keys.to_pylist()
    messages: list[dict[str, Any]] = [
        {"key": key, "value": value} for key, value in zip(objects, values.to_pylist(), strict=True)
    ]
    queued = producer.produce_batch(topic, messages, partition)
    if queued < len(messages):
        raise KafkaException(next(message["_error"] for message in messages if message.get("_error")))


def _loaded_library() -> ctypes.CDLL | None:
    """The library that confluent-kafka uses, where its objects are known to have the expected form."""
    is_tried = _TRIED_VERSIONS[0] <= _version(metadata.version("confluent-kafka")) < _TRIED_VERSIONS[1]
    is_other_python = platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED")
    if not is_tried or is_other_python or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    packages = Path(confluent_kafka.__file__).parents[1]
    found = [path for pattern in _LIBRARIES for path in packages.glob(pattern)]
    if len(found) != 1:
        return None
    library = ctypes.CDLL(str(found[0]))
    library.rd_kafka_version.restype = ctypes.c_int
    return library if library.rd_kafka_version() == confluent_kafka.libversion()[1] else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


class _Librdkafka:
    """The functions of librdkafka that are called here."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._topic_new = library.rd_kafka_topic_new
        self._topic_new.restype = ctypes.c_void_p
        self._topic_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._last_error = library.rd_kafka_last_error
        self._last_error.restype = ctypes.c_int
        self._topic_destroy = library.rd_kafka_topic_destroy
        self._topic_destroy.restype = None
        self._topic_destroy.argtypes = (ctypes.c_void_p,)
        self._produce_batch = library.rd_kafka_produce_batch
        self._produce_batch.restype = ctypes.c_int
        self._produce_batch.argtypes = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)

    def produce(
        self, producer: Producer, topic: str, partition: int, keys: pa.ChunkedArray | None, values: pa.ChunkedArray
    ) -> None:
        """See `BatchFunction`."""
        messages = np.zeros(len(values), _MESSAGE)
        messages["partition"] = partition
        messages["payload"], messages["len"] = addresses(values)
        if keys is not None:
            messages["key"], messages["key_len"] = addresses(keys)
        handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)
        known_topic = self._topic_new(handle, topic.encode(), None)  # the client's own, counted once more
        if not known_topic:
            raise KafkaException(KafkaError(self._last_error()))
        try:
            count = self._produce_batch(known_topic, partition, _COPY, messages.ctypes.data, len(messages))
        finally:
            self._topic_destroy(known_topic)
        if count < len(messages):
            raise KafkaException(KafkaError(int(messages["err"][messages["err"] != 0][0])))


def addresses(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Where in memory each value of a `BINARY` column is, and its size in bytes; 0 and 0 for a null.

    The addresses are valid as long as the column is.
    """
    parts = [_addresses_of_chunk(chunk) for chunk in column.chunks if len(chunk)]
    if not parts:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    return np.concatenate([where for where, _ in parts]), np.concatenate([sizes for _, sizes in parts])


def _addresses_of_chunk(chunk: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Those of an Arrow array (Arrow's columnar format, "Variable-size Binary Layout")."""
    _validity, offsets, data = chunk.buffers()
    ends = np.frombuffer(offsets, np.int64, len(chunk) + 1, chunk.offset * 8).astype(np.uint64)
    # An empty value is no null, so it has an address, too.
    found, sizes = np.uint64((data or offsets).address) + ends[:-1], ends[1:] - ends[:-1]
    if chunk.null_count:
        is_valid = np.asarray(chunk.is_valid())
        found, sizes = np.where(is_valid, found, 0), np.where(is_valid, sizes, 0)
    return found, sizes
