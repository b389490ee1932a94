"""A new identity for a table: a uuid and, where it has a log, a topic of its own, from its files as they are.

For a copied folder, and for a table that has lost what it knew of its writers. A schema with the new uuid and topic
comes first, then a snapshot whose log begins with the new topic. Cut off between the two, a table with a log is refused
until the command is run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lakelog.catalog import Table
from lakelog.catalog.identifier import Identifier
from lakelog.common.errors import UnsupportedError
from lakelog.filestore.commit.commit import CommitRequest, TableCommit
from lakelog.filestore.metadata.identity import PLACE_KEY, UUID_KEY
from lakelog.filestore.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.users import FORGOTTEN_KEY, LOG_STATE_KEY, carried_properties
from lakelog.filestore.options.layout import TABLE_UUID
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.servers import require_kafka_client
from lakelog.protocol.state import LogPosition, LogState


def new_identity(table: Table) -> Table:
    """Give a table a uuid and a log of its own; gives it as it is then. Its rows stay as they are.

    What its older log holds behind its newest snapshot is not taken over. Streams that it knows may go on with their
    checkpoints; where it has lost what it knew, those in the middle of their batches are refused. Streams that read it
    start anew. Raises UnavailableError when Kafka does not answer; nothing was done then.
    """
    store = table.file_store
    if store.branch != MAIN_BRANCH:
        raise UnsupportedError(f"branch {store.branch!r} of table {store.name} has no identity of its own")
    latest = store.snapshots.latest()
    carried = carried_properties(latest, store.snapshots).properties
    newest = store.schemas.latest() or store.schema
    was_cut_off = carried.get(UUID_KEY, TABLE_UUID.of(newest.options)) != TABLE_UUID.of(newest.options)
    schema = newest if was_cut_off else _with_identity(table, newest)
    renewed = replace(store, schema=schema)
    _record(renewed, had_snapshots=latest is not None)
    return Table(renewed, identifier=table.identifier, kafka=table.kafka)


def _with_identity(table: Table, schema: TableSchema) -> TableSchema:
    """Create the next schema, with a new uuid, and the topic that it names."""
    options = {**schema.options, TABLE_UUID.key: str(uuid.uuid4())}
    if table.file_store.has_log:
        options[PLACE_KEY] = table.path
    wanted = replace(schema, id=schema.id + 1, options=options)
    with _topic_of(table, wanted) as with_topic:
        table.file_store.schemas.create(with_topic)
    return with_topic


@contextmanager
def _topic_of(table: Table, schema: TableSchema) -> Iterator[TableSchema]:
    if not table.file_store.has_log:
        yield schema
        return
    require_kafka_client()
    from lakelog.protocol.topics import new_topic  # noqa: PLC0415  # needs the extra

    identifier = table.identifier or Identifier("copy", table.path.rpartition("/")[2])
    with new_topic(identifier, schema, table.warehouse, kafka=table.kafka) as with_topic:
        yield with_topic


def _record(table: FileStoreTable, *, had_snapshots: bool) -> None:
    """Commit a snapshot that begins with the table's own log. A table without snapshots has nothing to record."""
    if not had_snapshots:
        return

    def resolve(latest: Snapshot | None) -> CommitRequest:
        carried = carried_properties(latest, table.snapshots).properties
        properties: dict[str, str] = {}
        if latest is not None and not carried:  # lost: who wrote is not known
            properties[FORGOTTEN_KEY] = str(latest.time_millis)
        if table.has_log:
            properties |= {LOG_STATE_KEY: _restarted(table, latest, carried).to_json(), PLACE_KEY: table.path}
        return CommitRequest(
            commit_user=str(uuid.uuid4()),
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.APPEND,
            properties=properties,
            takes_lost_state=True,
        )

    TableCommit(table).commit(resolve)


def _restarted(table: FileStoreTable, latest: Snapshot | None, carried: Mapping[str, str]) -> LogState:
    """The beginning of the new log; sequence numbers go on behind those of the files."""
    text = carried.get(LOG_STATE_KEY)
    where = f"table {table.path}, snapshot {latest.id if latest else 0}"
    older = LogState(topic_id="") if text is None else LogState.from_json(text, where=where)
    live = table.live_files.of(latest)
    sequences = dict.fromkeys(range(table.bucket_count), 0)
    for partition, bucket in live.buckets:
        sequences[bucket] = max(sequences.get(bucket, 0), live.next_sequence(partition, bucket))
    return restarted_log(older, sequences, topic_id=TOPIC_ID.of(table.schema.options))


def restarted_log(older: LogState, sequences: Mapping[int, int], *, topic_id: str) -> LogState:
    """The beginning of another log behind the files that are there; `sequences` come after theirs. Pure."""
    positions = {
        bucket: LogPosition(sequence=max(sequence, older.position(bucket).sequence))
        for bucket, sequence in sequences.items()
    }
    return LogState(topic_id=topic_id, positions=positions, ledger=older.ledger)
