"""Tables without primary key: fold(log) = fold(files) = a Counter, for random histories and crash points."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: values of every column type

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField, DataType, RowKind, TypeRoot
from lakelog.filestore.formats.parquet.parquet_layout import has_nanos
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits_as_changes
from lakelog.logstore.codec.debezium import decode_changes
from lakelog.logstore.kafka.records.consumer import open_consumer
from lakelog.protocol.access.table_log import kafka_topic
from tests.conformance.test_debezium_json import FLINK, SIMPLE
from tests.integration.logs.test_log_equals_files import COARSE_MOMENTS, Change, Row, is_storable
from tests.support.kills.crashing_writer import CrashingWriter, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table, log_range
from tests.support.logs.promises import log_changes, snapshot_states
from tests.support.tables.column_types import column_types, exact_rows, scalar_types, values_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

KINDS = {"append-only": (RowKind.INSERT, RowKind.UPDATE_AFTER), "change-log": tuple(RowKind)}
LOGGED = {"bucket": "2", "log.system": "kafka"}


@dataclass(frozen=True, slots=True)
class History:
    """Columns, batches of changes, the step counts after which the writer dies, and when all files are merged."""

    write_mode: str
    fields: Sequence[DataField]
    partition_keys: Sequence[str]
    batches: Sequence[Sequence[Change]]
    crashes: Sequence[int]
    compacted_after: frozenset[int]


@st.composite
def histories(draw: st.DrawFn, write_mode: str) -> History:
    """Changes of a few rows, so that equal ones meet, also more deletes of a row than there are of it."""
    types = scalar_types if write_mode == "change-log" else column_types
    kinds = draw(st.lists(types.filter(is_storable), min_size=1, max_size=3))
    small = DataType(root=TypeRoot.BIGINT)
    fields = [DataField(id=0, name=name, type=small) for name in ("p", "k")]
    fields += [DataField(id=0, name=f"c{place}", type=kind) for place, kind in enumerate(kinds)]
    assume(not (has_nanos(fields) and any(text in str(kind) for text in COARSE_MOMENTS for kind in kinds)))
    numbers = st.sampled_from((None, 0, 1))
    rows: list[Row] = [
        (draw(numbers), draw(numbers), *(draw(values_of(kind)) for kind in kinds))
        for _ in range(draw(st.integers(1, 4)))
    ]
    change = st.tuples(st.sampled_from(KINDS[write_mode]), st.sampled_from(rows))
    return History(
        write_mode,
        fields,
        draw(st.sampled_from(((), ("p",)))),
        draw(st.lists(st.lists(change, max_size=8), min_size=1, max_size=4)),
        draw(st.lists(st.integers(1, 20), max_size=3)),
        draw(st.frozensets(st.integers(0, 3), max_size=2)),
    )


def check(history: History, bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table(
        "db.t",
        schema=history.fields,
        partition_keys=history.partition_keys,
        options=LOGGED | {"write-mode": history.write_mode},
    )
    truths = _write(table, history)
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    seen = set()
    for snapshot, state in snapshot_states(table):
        (entry,) = state.users.values()
        truth = truths[entry.identifier]
        assert _signed_rows(table, snapshot) == truth, "files"
        assert Counter(exact_rows(table.to_arrow(snapshot_id=snapshot.id))) == +truth, "rows"
        assert _fold(changes, state.logged.positions) == truth, "log"
        seen.add(entry.identifier)
    assert seen == set(range(len(history.batches)))
    catalog.drop_table("db.t")


def _write(table: Table, history: History) -> list[Counter[str]]:
    """Write all batches with the crashes; how often each row must be there after each batch, also below zero."""
    schema = to_arrow_schema(table.schema.fields)
    writer = CrashingWriter(table, history.crashes)
    truths: list[Counter[str]] = []
    rows: Counter[str] = Counter()
    for identifier, batch in enumerate(history.batches):
        given_rows = table_of([row for _, row in batch], schema)
        writer.write(identifier, given_rows, pa.array([kind.value for kind, _ in batch], pa.int8()))
        for text, (kind, _) in zip(exact_rows(given_rows), batch, strict=True):
            rows[text] += 1 if kind.is_add else -1
        truths.append(_counted(rows))
        if identifier in history.compacted_after:
            table.store.compact(full=True)
    return truths


def _counted(rows: Mapping[str, int]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if count})


def _signed_rows(table: Table, snapshot: Snapshot) -> Counter[str]:
    rows: Counter[str] = Counter()
    for batch, kinds in read_splits_as_changes(table.store, plan_splits(table.store, snapshot).splits):
        for text, kind in zip(exact_rows(pa.Table.from_batches([batch])), kinds.to_pylist(), strict=True):
            rows[text] += 1 if RowKind(kind).is_add else -1
    return _counted(rows)


def _fold(changes: Sequence[tuple[int, int, int, pa.Table]], positions: Mapping[int, Any]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for bucket, offset, kind, row in changes:
        if bucket in positions and offset < positions[bucket].offset:
            rows[exact_rows(row)[0]] += 1 if RowKind(kind).is_add else -1
    return _counted(rows)


@pytest.mark.parametrize("write_mode", list(KINDS))
def test_log_and_files_fold_to_the_same_multiset(bootstrap_servers: str, write_mode: str) -> None:
    run(write_mode, bootstrap_servers, examples=6)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("write_mode", list(KINDS))
def test_log_and_files_fold_to_the_same_multiset_for_many_histories(bootstrap_servers: str, write_mode: str) -> None:
    run(write_mode, bootstrap_servers, examples=200)


def run(write_mode: str, bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories(write_mode))
    def law(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(history, bootstrap_servers, Path(folder))

    law()


def test_the_log_of_a_table_without_key_is_record_for_record_what_flink_writes(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    lines = [json.loads(line) for line in (FLINK / "simple_nokey.jsonl").read_text(encoding="utf-8").splitlines()]
    values = [line["value"].encode() for line in lines]
    rows, kinds = decode_changes(values, SIMPLE)
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = LOGGED | {"write-mode": "change-log", "bucket": "1"}
    table = catalog.create_table("db.t", schema=SIMPLE, options=options)

    LocalWriter(table, "q").write(0, rows, kinds)

    log = log_of_table(table)
    with open_consumer(kafka_topic(log).partition(0)) as consumer:
        messages = [one for batch in consumer.read(0, log_range(table)[1], 10.0, is_tail=True) for one in batch]
    assert [message.key() for message in messages] == [None] * len(values)
    # Flink escapes what is outside of the basic plane; the members of an envelope come in the same order.
    assert [_unescaped(message.value()) for message in messages] == [_unescaped(value) for value in values]


def _unescaped(value: bytes | None) -> str:
    assert value is not None
    return json.dumps(json.loads(value))


def test_changes_that_cancel_each_other_are_logged_and_are_in_no_file(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    schema = pa.schema({"id": pa.int64()})
    table = catalog.create_table("db.t", schema=schema, options=LOGGED | {"write-mode": "change-log"})

    LocalWriter(table, "q").write(0, pa.table({"id": [7, 7]}), pa.array([RowKind.INSERT, RowKind.DELETE], pa.int8()))

    assert [kind for bucket in range(2) for _, _, kind, _ in log_changes(table, bucket)] == [
        RowKind.INSERT,
        RowKind.DELETE,
    ]
    (state,) = (state for _, state in snapshot_states(table))
    assert sum(position.records for position in state.logged.positions.values()) == 2
    assert not list((tmp_path / "db.db" / "t").rglob("data-*"))
