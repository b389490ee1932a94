"""Checks that a partition still has the same records: by its leader epochs, and by the headers of transactions.

Each leader of a partition has its own epoch. A log that reached an offset in an epoch keeps its records up to there
forever, unless a leader that lacks its end took over (an unclean election, a broker that lost its disk): then that
epoch ends before the offset, and there may be other records now. Kafka knows where each epoch ends
(OffsetForLeaderEpoch); its client asks when it is assigned an offset with an epoch, before it fetches. Source: KIP-320.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lakelog.common.errors import LakelogError, UnavailableError
from lakelog.logstore.errors import LogRewrittenError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, close_consumer, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition
from lakelog.logstore.kafka.clients.offsets import Position, high_watermark, log_start_offset
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.kafka.records.consumer import (
    CONSUMER_SETTINGS,
    OWN_CONSUMER_SETTINGS,
    commit_header,
    open_consumer,
)

_POLL_SECONDS = 0.5
_SEEK_BYTES = 64 << 10  # so many are read faster than the next offset is sought
_CUT_CODES = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION})


def headers_at(
    partition: KafkaPartition, transactions: Mapping[int, int], *, timeout_seconds: float = 10.0
) -> dict[int, bytes]:
    """The headers of the transactions that begin at some offsets, by offset; without those that do not.

    `transactions` has the bytes of each, by its first offset. Small ones are read as a whole, since to seek the next
    one takes longer, and of the others the first record. Raises UnavailableError, and LogTruncatedError for an offset
    before the log's start.
    """
    newest = high_watermark(partition).offset
    found: dict[int, bytes] = {}
    for run in _runs({one: transactions[one] for one in sorted(transactions) if one < newest}):
        with open_consumer(partition, is_single=len(run) == 1) as consumer:
            for messages in consumer.read(run[0], run[-1] + 1, timeout_seconds):
                for message in messages:
                    header, offset = commit_header(message), message.offset()
                    if header is not None and offset is not None and offset in transactions:
                        found[offset] = header
    return found


def _runs(transactions: Mapping[int, int]) -> list[list[int]]:
    """The offsets, together where what is between them is small."""
    runs: list[list[int]] = []
    is_near = False
    for offset, size_bytes in transactions.items():
        if is_near:
            runs[-1].append(offset)
        else:
            runs.append([offset])
        is_near = size_bytes <= _SEEK_BYTES
    return runs


def check_not_rewritten(partition: KafkaPartition, known: Position) -> None:
    """Raise LogRewrittenError when records before `known.offset` may have been replaced.

    `known.leader_epoch` was the epoch at that offset; without an epoch there is no check. Call it only if the current
    epoch is a different one, since it needs a new client. Raises UnavailableError.
    """
    epoch = known.leader_epoch
    if epoch is None or known.offset == 0:
        return
    if log_start_offset(partition).offset > known.offset:
        return  # deleted: there is nothing to compare
    client_config, topic = partition.client_config, partition.topic
    consumer = make_client(Consumer, CONSUMER_SETTINGS | {**client_config}, OWN_CONSUMER_SETTINGS)
    try:
        consumer.assign([TopicPartition(topic.name, partition.number, known.offset, leader_epoch=epoch)])
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return
            if error.code() in _CUT_CODES:
                raise rewritten(partition, known.offset, epoch)
            raise _error(error, partition)
    finally:
        close_consumer(consumer)
    raise UnavailableError(
        f"asking the leader epochs of {partition}: Kafka at {servers_of(client_config)} did not answer in"
        f" {ANSWER_SECONDS:.0f} s; check that its brokers run, then try again"
    )


def _error(error: KafkaError, partition: KafkaPartition) -> LakelogError:
    doing, right = f"asking the leader epochs of {partition}", topic_right("READ", partition.topic.name)
    return kafka_error(error, doing, partition.client_config, right=right)


def rewritten(partition: KafkaPartition, offset: int, epoch: int | None) -> LogRewrittenError:
    """The error for a log that was cut before `offset` and continued with other records."""
    when = "" if epoch is None else f" in leader epoch {epoch}"
    return LogRewrittenError(
        f"{partition} reached offset {offset}{when}, and was cut before it since: a broker that lacked the end became"
        " leader (an unclean election, or a lost disk), so it may hold other records now. The rows of snapshots are"
        " complete. `lakelog log renew TABLE` gives the table another topic; then start writers and streams again with"
        " their checkpoints: streams read from the files what was lost. More replicas, and"
        " unclean.leader.election.enable=false, prevent it"
    )
