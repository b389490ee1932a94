"""A new identity for a table: a new uuid and, if it has a log, a new topic; the files do not change.

It is for a copied folder, and for a table that has lost lakelog's state of its writers. A schema with the new uuid and
topic is created first, then a snapshot whose log begins with the new topic. After a crash between the two, a table with
a log is refused until the command is run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from lakelog.common.errors import UnsupportedError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.commit import CommitRequest, TableCommit
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, carried_properties
from lakelog.filestore.options import TABLE_UUID
from lakelog.filestore.schema import MAIN_BRANCH, TableSchema
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.access.servers import require_kafka_client
from lakelog.protocol.state.log_generations import state_of_log, with_ended
from lakelog.protocol.state.state import LogPosition, LogState


def new_identity(
    table: FileStoreTable, *, topic_of: Callable[[str], str], kafka: Mapping[str, str] | None = None
) -> FileStoreTable:
    """Give a table a new uuid and a new log; returns the changed table. Its rows do not change.

    `topic_of` names the topic of a table with this uuid, `kafka` are the user's own settings of Kafka clients.
    Records of its older log after its newest snapshot are left out. Streams that write the table can continue with
    their checkpoints; if lakelog's state was lost, streams in the middle of a batch are refused. Streams that read the
    table need new checkpoint locations. Raises UnavailableError when Kafka does not answer; then nothing was changed.
    """
    if table.branch != MAIN_BRANCH:
        raise UnsupportedError(f"branch {table.branch!r} of table {table.name} has no identity of its own")
    latest = table.snapshots.latest()
    carried = carried_properties(latest, table.snapshots).properties
    newest = table.schemas.latest() or table.schema
    was_cut_off = carried.get(PropertyKey.UUID, TABLE_UUID.of(newest.options)) != TABLE_UUID.of(newest.options)
    schema = newest if was_cut_off else _with_identity(table, newest, topic_of, kafka)
    renewed = replace(table, schema=schema)
    _record(renewed, had_snapshots=latest is not None)
    return renewed


def _with_identity(
    table: FileStoreTable, schema: TableSchema, topic_of: Callable[[str], str], kafka: Mapping[str, str] | None
) -> TableSchema:
    """Create the next schema, with a new uuid, and the topic that it names."""
    new_uuid = str(uuid.uuid4())
    options = {**schema.options, TABLE_UUID.key: new_uuid, PropertyKey.PLACE: table.path}
    wanted = replace(schema, id=schema.id + 1, options=options)
    if not table.has_log:
        table.schemas.create(wanted)
        return wanted
    require_kafka_client()
    from lakelog.protocol.access.topics import new_topic  # noqa: PLC0415  # needs the extra

    with new_topic(topic_of(new_uuid), wanted, warehouse_of(table.path), kafka=kafka) as with_topic:
        table.schemas.create(with_topic)
    return with_topic


def _record(table: FileStoreTable, *, had_snapshots: bool) -> None:
    """Commit a snapshot that begins with the table's own log. A table without snapshots has nothing to record."""
    if not had_snapshots:
        return

    def resolve(latest: Snapshot | None) -> CommitRequest:
        carried = carried_properties(latest, table.snapshots).properties
        properties: dict[str, str] = {}
        if latest is not None and not carried:  # the state of writers was lost
            properties[PropertyKey.FORGOTTEN] = str(latest.time_millis)
        if table.has_log:
            state = restarted_state(table, latest, carried, file_sequences(table, latest))
            properties |= {PropertyKey.LOG_STATE: state.to_json(), PropertyKey.PLACE: table.path}
            # Another table may continue to write the older topic: what the topic had for this table is in the files.
            properties |= with_ended(table, carried, latest=latest, is_lost=True)
        return CommitRequest(properties=properties, takes_lost_state=True)

    TableCommit(table).commit(resolve)


def restarted_state(
    table: FileStoreTable, latest: Snapshot | None, carried: Mapping[str, str], sequences: Mapping[int, int]
) -> LogState:
    """The beginning of the new log after a snapshot; `sequences` has the numbers after those of each bucket's files."""
    older = state_of_log(carried, where=f"table {table.path}, snapshot {latest.id if latest else 0}")
    after = {**dict.fromkeys(range(table.bucket_count), 0), **sequences}
    return restarted_log(older or LogState(topic_id=""), after, topic_id=TOPIC_ID.of(table.schema.options))


def file_sequences(table: FileStoreTable, snapshot: Snapshot | None) -> dict[int, int]:
    """Bucket -> the sequence number after those of the bucket's files in a snapshot."""
    live = table.live_files.of(snapshot)
    sequences: dict[int, int] = {}
    for bucket in live.buckets:
        sequences[bucket.number] = max(sequences.get(bucket.number, 0), live.next_sequence(bucket))
    return sequences


def restarted_log(older: LogState, sequences: Mapping[int, int], *, topic_id: str) -> LogState:
    """The beginning of another log after the present files; `sequences` come after theirs. Pure."""
    positions = {
        bucket: LogPosition(sequence=max(sequence, older.position(bucket).sequence))
        for bucket, sequence in sequences.items()
    }
    return replace(older, topic_id=topic_id, positions=positions)
