"""fold(log) = fold(files) = a dict, over all types, random histories, batch cuts and crash points; on a real broker."""

from __future__ import annotations

import tempfile
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
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, DataType, RowKind, TypeRoot
from lakelog.filestore.formats.parquet.parquet_layout import has_nanos
from lakelog.filestore.schema.schema_rules import check_types
from tests.support.kills.crashing_writer import CrashingWriter, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.promises import log_changes, snapshot_states
from tests.support.tables.column_types import column_types, exact_rows, values_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

KEYS = 6
COARSE_MOMENTS = [f"TIMESTAMP({digits})" for digits in range(7)]
Row = tuple[Any, ...]
Change = tuple[RowKind, Row]


@dataclass(frozen=True, slots=True)
class History:
    """Columns, batches of changes, and the step counts after which the writer dies."""

    fields: Sequence[DataField]
    batches: Sequence[Sequence[Change]]
    crashes: Sequence[int]
    mode: str


def is_storable(kind: DataType) -> bool:
    """Whether files can hold every value that the strategy makes.

    Not so for short texts, and for seconds that are no milliseconds any more: refusing those is other tests' business.
    """
    try:
        check_types([DataField(id=0, name="c", type=kind)])
    except UnsupportedError:
        return False
    return not any(text in str(kind) for text in ("CHAR(5)", "BINARY(5)", "TIMESTAMP(0)"))


@st.composite
def histories(draw: st.DrawFn) -> History:
    kinds = draw(st.lists(column_types.filter(is_storable), min_size=1, max_size=3))
    key = DataField(id=0, name="k", type=DataType(root=TypeRoot.BIGINT, nullable=False))
    fields = [key, *(DataField(id=0, name=f"c{place}", type=kind) for place, kind in enumerate(kinds))]
    # Beside INT96 all timestamps of a file keep to the days that it has: refusing others is other tests' business.
    assume(not (has_nanos(fields) and any(text in str(kind) for text in COARSE_MOMENTS for kind in kinds)))
    rows: dict[int, Row] = {}
    batches = []
    for _ in range(draw(st.integers(1, 4))):
        batch: list[Change] = []
        for _ in range(draw(st.integers(0, 8))):
            number = draw(st.integers(0, KEYS - 1))
            before = rows.get(number)
            if before is not None and draw(st.booleans()):
                batch.append((RowKind.DELETE, before))
                del rows[number]
                continue
            after = (number, *(draw(values_of(kind)) for kind in kinds))
            if before is None:
                batch.append((RowKind.INSERT, after))
            else:
                batch += [(RowKind.UPDATE_BEFORE, before), (RowKind.UPDATE_AFTER, after)]
            rows[number] = after
        batches.append(batch)
    crashes = draw(st.lists(st.integers(1, 20), max_size=3))
    return History(fields, batches, crashes, draw(st.sampled_from(("all", "upsert"))))


def check(history: History, bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": history.mode}
    table = catalog.create_table("db.t", schema=history.fields, primary_keys=["k"], options=options)
    truths = _write(table, history)
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    seen = set()
    for snapshot, state in snapshot_states(table):
        (entry,) = state.users.values()
        truth = truths[entry.identifier]
        rows = table.to_arrow(snapshot_id=snapshot.id)
        assert _by_key(rows) == truth, "files"
        assert _fold(changes, state.logged.positions, history.fields) == truth, "log"
        seen.add(entry.identifier)
    assert seen == set(range(len(history.batches)))
    catalog.drop_table("db.t")


def _write(table: Table, history: History) -> list[dict[int, Any]]:
    """Write all batches with the crashes; the rows by key that must be there after each batch."""
    schema = to_arrow_schema(table.schema.fields)
    writer = CrashingWriter(table, history.crashes)
    truths: list[dict[int, Any]] = []
    rows: dict[int, pa.Table] = {}
    for identifier, batch in enumerate(history.batches):
        given_rows = table_of([row for _, row in batch], schema)
        writer.write(identifier, given_rows, pa.array([kind.value for kind, _ in batch], pa.int8()))
        for place, (kind, row) in enumerate(batch):
            if kind.is_add:
                rows[row[0]] = given_rows.slice(place, 1)
            else:
                rows.pop(row[0], None)
        truths.append({key: _exact(one) for key, one in rows.items()})
    return truths


def _exact(row: pa.Table) -> str:
    """A text that is equal only for equal values, NaN and -0.0 included."""
    (text,) = exact_rows(row)
    return text


def _by_key(rows: pa.Table) -> dict[int, str]:
    found = {row["k"]: _exact(rows.slice(place, 1)) for place, row in enumerate(rows.select(["k"]).to_pylist())}
    assert len(found) == rows.num_rows, "a key is there twice"
    return found


def _fold(
    changes: Sequence[tuple[int, int, int, pa.Table]], positions: Mapping[int, Any], fields: Sequence[DataField]
) -> dict[int, str]:
    rows: dict[int, str] = {}
    for bucket, offset, kind, row in changes:
        if bucket in positions and offset < positions[bucket].offset:
            key = row["k"][0].as_py()
            if RowKind(kind).is_add:
                rows[key] = _exact(row)
            else:
                rows.pop(key, None)
    return rows


def test_log_and_files_fold_to_the_same_rows(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=15)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_log_and_files_fold_to_the_same_rows_for_many_histories(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=400)


def run(bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories())
    def law(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(history, bootstrap_servers, Path(folder))

    law()
