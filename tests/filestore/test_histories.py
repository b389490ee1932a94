"""Random histories of tables over all types, against a dict."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.table import FileStoreTable
from tests.support.examples import examples
from tests.support.tables.strategies import History, Model, Write, histories, shown

IO = LocalFileIO(sync_data=False)
CALM = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def apply(table: FileStoreTable, step: object) -> None:
    if isinstance(step, Write):
        table.write(step.rows, kinds=step.kinds, mode="overwrite" if step.is_overwrite else "append")
    else:
        table.compact(full=getattr(step, "is_full", False))


@CALM
@given(history=histories())
def test_every_snapshot_reads_as_the_model_was(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = FileStoreTable.create(f"{folder}/t", history.schema, IO)
        model = Model.of(history.schema)
        seen: dict[int, list[str]] = {}
        for step in history.steps:
            apply(table, step)
            model.apply(step)
            assert shown(table.to_arrow()) == model.shown()
            newest = table.snapshots.latest()
            if newest is not None:
                seen[newest.id] = model.shown()
        stranger = FileStoreTable.open(table.path, IO)
        for snapshot_id, rows in seen.items():
            assert shown(stranger.to_arrow(snapshot_id=snapshot_id)) == rows


@pytest.mark.parametrize(
    "formats",
    [
        pytest.param({"file.format": "orc"}, marks=pytest.mark.full),
        pytest.param({"file.format": "avro"}, marks=pytest.mark.full),
        {"file.format": "orc", "file.format.per.level": "0:avro", "file.compression.per.level": "5:none"},
    ],
    ids=str,
)
@settings(CALM, max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_tables_of_other_formats_read_as_the_model_was(formats: dict[str, str], data: st.DataObject) -> None:
    history = data.draw(histories(options=formats))
    with tempfile.TemporaryDirectory() as folder:
        table = FileStoreTable.create(f"{folder}/t", history.schema, IO)
        model = Model.of(history.schema)
        for step in history.steps:
            apply(table, step)
            model.apply(step)
            assert shown(table.to_arrow()) == model.shown()


@CALM
@given(history=histories())
def test_the_smallest_memory_budget_reads_the_same_rows(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = FileStoreTable.create(f"{folder}/t", history.schema, IO)
        for step in history.steps:
            apply(table, step)
        planned = plan_splits(table, table.snapshots.latest())
        batches = [batch for split in planned.splits for batch in read_splits(table, [split], memory_budget_bytes=1)]
        assert shown(pa.Table.from_batches(batches, history.schema.arrow_schema)) == shown(table.to_arrow())


@CALM
@given(history=histories())
def test_the_files_of_every_level_hold_each_key_once_and_say_so(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = FileStoreTable.create(f"{folder}/t", history.schema, IO)
        for step in history.steps:
            apply(table, step)
            live = table.live_files.of(table.snapshots.latest())
            for bucket in live.buckets:
                runs_of(live.files(bucket), table.key_types)
