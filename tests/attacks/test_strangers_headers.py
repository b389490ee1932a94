"""A stranger's header in a table's topic names files elsewhere: no batch takes it in, and no cleaning trusts it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import CorruptDataError
from lakelog.filestore.verbs import remove_orphan_files
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life.orphans import names_in_log
from lakelog.protocol.state.header import BucketFile, CommitHeader
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_topics import write

pytestmark = pytest.mark.integration
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def header_beside(table: Table, change: dict[str, object]) -> bytes:
    """The header of a batch of another user with a file as the table has one, but for a change."""
    file = next(table.store.live_files.of(table.store.snapshots.latest()).entries()).file
    header = CommitHeader(
        table_uuid=table.store.uuid,
        user="stranger",
        identifier=0,
        source_digest="0",
        schema_id=0,
        base_snapshot_id=1,
        record_count=1,
        size_bytes=10,
        files=(BucketFile(partition=bytes(12), meta=replace(file, min_sequence_number=1, max_sequence_number=1)),),
    )
    fields = json.loads(header.to_bytes())
    fields["files"][0][1] |= change
    return json.dumps(fields).encode()


@pytest.mark.parametrize("change", [{"n": "../../../../victim"}, {"x": ["/etc/passwd"]}, {"p": "file:/etc/passwd"}])
def test_the_next_batch_refuses_a_header_that_names_files_elsewhere(
    tmp_path: Path, bootstrap_servers: str, change: dict[str, object]
) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})
    rows, kinds = pa.table({"id": [1]}, schema=to_arrow_schema(table.schema.fields)), pa.array([0], pa.int8())
    LocalWriter(table, "q").write(0, rows, kinds)
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody else's")
    assert table.log is not None

    with TransactionalProducer(kafka_topic(table.log).partition(0), "stranger") as stranger:
        write(stranger, [7], header_beside(table, change))
    with pytest.raises(CorruptDataError, match=rf"topic {table.log.topic}, partition 0"):
        LocalWriter(table, "q").write(1, rows, kinds)
    with pytest.raises(CorruptDataError, match=rf"topic {table.log.topic}, partition 0"):
        remove_orphan_files(table.store, named_elsewhere=names_in_log(table.store, table.log), dry_run=False)

    assert [one.id for one in table.snapshots()] == [1]
    assert table.to_arrow()["id"].to_pylist() == [1]
    assert victim.read_bytes() == b"somebody else's"
    catalog.drop_table("db.t")
