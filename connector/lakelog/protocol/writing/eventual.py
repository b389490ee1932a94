"""Eventual logs over the real stores: sending records, and finding what an earlier writer left.

See `lakelog.protocol.writing.eventual_task` for the steps of a writer, `lakelog.logstore.kafka.records.authors` for the
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.metadata.snapshots import CommitUser, is_same_source
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import Position
from lakelog.logstore.kafka.producers.eventual_writer import open_producer
from lakelog.logstore.kafka.records.authors import Author
from lakelog.logstore.options import CONSISTENCY, is_eventual
from lakelog.protocol.state.state import Batch

_LEAVE_OUT = (
    "Or leave the batch out, with `lakelog table new-identity PATH`, which gives the table a new log without these "
    "records"
)


@dataclass(frozen=True, slots=True)
class TopicOfRecords:
    """The topic of a table with an eventual log, for a task that writes it."""

    topic: KafkaTopic

    def send(self, bucket: int, payload: EncodedRecords, author: Author, check: Callable[[], None]) -> Position:
        """Send the records; returns the end of the log once the broker has them all."""
        with open_producer(self.topic.partition(bucket)) as producer:
            return producer.send(payload, author, check)


def check_transactional(schema: TableSchema, what: str, *, table_name: str) -> None:
    """Raise UnsupportedError for something that a table with an eventual log cannot do, such as 'DELETE'."""
    if is_eventual(schema.options):
        raise UnsupportedError(
            f"{what} is not possible in table {table_name}, which has {CONSISTENCY.key}=eventual: its one stream could "
            "send records at the same time, in another order than their snapshots, and there is no transaction around "
            f"records that belong together; use a table with {CONSISTENCY.key}=transactional"
        )


def check_no_other_left(
    batch: Batch, bucket: int, authors: Iterable[Author], users: Mapping[str, CommitUser], *, table_name: str
) -> None:
    """Raise InvalidRequestError for records of a batch that no snapshot has and that this stream does not run again.

    It also raises if the stream runs the batch again from other source offsets: keys that only the earlier attempt had
    would be in the log but in no file.
    `authors` are those of the records after the newest snapshot, `users` are the users of that snapshot. Pure.
    """
    for author in sorted(authors, key=lambda one: (one.user, one.identifier, one.digest or "")):
        is_own = author.user == batch.user and author.identifier <= batch.identifier
        if is_own and author.identifier == batch.identifier and not is_same_source(author.digest, batch.source_digest):
            raise InvalidRequestError(
                f"batch {batch.identifier} of {batch.user} was written with other source offsets: the log of bucket "
                f"{bucket} of table {table_name} has records of it with the source digest {author.digest}, this one "
                f"has {batch.source_digest}. No snapshot has the batch: {CONSISTENCY.key}=eventual. The checkpoint was "
                f"reset, restored or copied: use the one that goes with the table. {_LEAVE_OUT}"
            )
        last = users.get(author.user)
        if is_own or (last is not None and author.identifier <= last.identifier):
            continue
        if author.user == batch.user:
            raise InvalidRequestError(
                f"batch {batch.identifier} of {batch.user} is too old: the log of bucket {bucket} of table "
                f"{table_name} already has records of its batch {author.identifier}. The checkpoint was reset or "
                "copied: use the one that goes with the table"
            )
        raise InvalidRequestError(
            f"the log of bucket {bucket} of table {table_name} has records of batch {author.identifier} of the query "
            f"{author.user}, and no snapshot has this batch: {CONSISTENCY.key}=eventual. Let that query finish it: "
            f"start it again from its checkpoint. {_LEAVE_OUT}"
        )
