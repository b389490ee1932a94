"""Logs of all changes from plain upserts: valid changelogs, for random histories, crashes and two writers."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: values of every column type, and positions, which are asked for their offset alone

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from lakelog.catalog import AddColumn, Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_COLUMN, ROW_KIND_TEXTS, DataField, DataType, RowKind, TypeRoot
from lakelog.filestore.formats.parquet.parquet_layout import has_nanos
from lakelog.protocol.state.steps import Step
from lakelog.protocol.stores.resolving import CACHE
from tests.integration.logs.test_log_equals_files import COARSE_MOMENTS, is_storable
from tests.support.examples import examples
from tests.support.kills.crashing_writer import CrashingWriter, InjectedCrash, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.promises import log_changes, snapshot_states
from tests.support.tables.column_types import column_types, exact_rows, values_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LOGGED = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("g", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[Any, ...]
Change = tuple[RowKind, Row]
Logged = tuple[int, int, int, pa.Table]  # bucket, offset, row kind, row


@dataclass(frozen=True, slots=True)
class History:
    """Columns, options, batches of any changes, the steps after which the writer dies, and when files are merged."""

    fields: Sequence[DataField]
    options: Mapping[str, str]
    is_partitioned: bool
    batches: Sequence[Sequence[Change]]
    crashes: Sequence[int]
    compacted_after: frozenset[int]


def texts_of(rows: pa.Table) -> list[str]:
    """Each row as text. Comparisons take -0.0 for 0.0: an update from one to the other changes nothing."""
    return [text.replace("-0.0", "0.0") for text in exact_rows(rows)]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A few keys, and rows that come again, so that updates change nothing; -U and -D with values that are wrong."""
    kinds = draw(st.lists(column_types.filter(is_storable), min_size=1, max_size=2))
    key = DataType(root=TypeRoot.BIGINT, nullable=False)
    fields = [DataField(id=0, name=name, type=key) for name in ("p", "k")]
    fields += [DataField(id=0, name=f"c{place}", type=kind) for place, kind in enumerate(kinds)]
    assume(not (has_nanos(fields) and any(text in str(kind) for text in COARSE_MOMENTS for kind in kinds)))
    values = st.sampled_from([tuple(draw(values_of(kind)) for kind in kinds) for _ in range(3)])
    change = st.tuples(st.sampled_from([RowKind.INSERT, *RowKind]), st.integers(0, 1), st.integers(0, 3), values)
    batches = draw(st.lists(st.lists(change, max_size=8), min_size=1, max_size=5))
    return History(
        fields,
        {
            **LOGGED,
            "changelog-producer": draw(st.sampled_from(("lookup", "none"))),
            "changelog-producer.row-deduplicate": draw(st.sampled_from(("true", "false"))),
            "lookup.cache-max-memory-size": draw(st.sampled_from(("256 mb", "2 kb", "0"))),
        },
        draw(st.booleans()),
        [[(kind, (p, k, *row)) for kind, p, k, row in batch] for batch in batches],
        draw(st.lists(st.integers(1, 20), max_size=3)),
        draw(st.frozensets(st.integers(0, 4), max_size=2)),
    )


def check(history: History, bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table(
        "db.t",
        schema=history.fields,
        primary_keys=["p", "k"],
        partition_keys=["p"] if history.is_partitioned else [],
        options=history.options,
    )
    truths = _write(table, history)
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    seen = set()
    for snapshot, state in snapshot_states(table):
        (entry,) = state.users.values()
        rows = texts_of(table.to_arrow(snapshot_id=snapshot.id))
        assert Counter(rows) == Counter(truths[entry.identifier].values()), "files"
        logged = _until(changes, state.logged.positions)
        assert _fold(logged) == truths[entry.identifier], "log"
        if history.options["changelog-producer.row-deduplicate"] == "true":
            _check_no_idle_updates(logged)
        seen.add(entry.identifier)
    assert seen == set(range(len(history.batches)))
    if history.options["changelog-producer"] == "lookup":
        _check_changelog_files(table, changes)
    catalog.drop_table("db.t")


def _write(table: Table, history: History) -> list[dict[str, str]]:
    """Write all batches with the crashes; the rows by key that must be there after each batch."""
    schema = to_arrow_schema(table.schema.fields)
    writer = CrashingWriter(table, history.crashes)
    rows: dict[str, str] = {}
    truths = []
    for identifier, batch in enumerate(history.batches):
        given_rows = table_of([row for _, row in batch], schema)
        writer.write(identifier, given_rows, pa.array([kind.value for kind, _ in batch], pa.int8()))
        keys = texts_of(given_rows.select(["p", "k"]))
        for key, text, (kind, _) in zip(keys, texts_of(given_rows), batch, strict=True):
            rows.pop(key, None)
            if kind.is_add:
                rows[key] = text
        truths.append(dict(rows))
        if identifier in history.compacted_after:
            table.store.compact(full=True)
    return truths


def _until(changes: Sequence[Logged], positions: Mapping[int, Any]) -> list[Logged]:
    """The changes before positions."""
    return [one for one in changes if one[0] in positions and one[1] < positions[one[0]].offset]


def _fold(changes: Sequence[Logged], key_names: Sequence[str] = ("p", "k")) -> dict[str, str]:
    """The rows by key. Each -U and -D must be the last +I or +U of its key, and +I the first row of one without."""
    rows: dict[str, str] = {}
    before: dict[str, str] = {}  # the -U whose +U comes next
    for _, _, number, row in changes:
        kind, (key,), (text,) = RowKind(number), texts_of(row.select(key_names)), texts_of(row)
        assert not before or (kind is RowKind.UPDATE_AFTER and before.keys() == {key}), "a -U without its +U"
        if kind.is_add:
            assert key not in rows
            assert (kind is RowKind.UPDATE_AFTER) == (key in before)
            rows[key] = text
            before.clear()
        else:
            assert rows.pop(key) == text, "an old value that never was"
            if kind is RowKind.UPDATE_BEFORE:
                before[key] = text
    assert not before
    return rows


def _check_no_idle_updates(changes: Sequence[Logged]) -> None:
    for (_, _, kind, row), (_, _, _, after) in itertools.pairwise(changes):
        assert RowKind(kind) is not RowKind.UPDATE_BEFORE or texts_of(row) != texts_of(after)


def _check_changelog_files(table: Table, changes: Sequence[Logged]) -> None:
    """Changelog files hold the changes of the log, those of a key in their order."""
    logged, filed = defaultdict(list), defaultdict(list)
    for _, _, kind, row in changes:
        logged[texts_of(row.select(["p", "k"]))[0]].append((ROW_KIND_TEXTS[kind], texts_of(row)[0]))
    for batch in table.changes():
        rows = pa.Table.from_batches([batch])
        values = rows.drop_columns([ROW_KIND_COLUMN])
        kinds = rows[ROW_KIND_COLUMN].to_pylist()
        for key, text, kind in zip(texts_of(rows.select(["p", "k"])), texts_of(values), kinds, strict=True):
            filed[key].append((kind, text))
    assert filed == logged


def test_a_log_of_plain_upserts_is_a_valid_changelog_of_the_files(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=12)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_log_of_plain_upserts_is_a_valid_changelog_of_the_files_in_many_histories(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=300)


def run(bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories())
    def law(history: History) -> None:
        CACHE.clear()
        with tempfile.TemporaryDirectory() as folder:
            check(history, bootstrap_servers, Path(folder))

    law()


Upserts = list[tuple[int, int, int]]
upserts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 2)), max_size=6)
turns = st.lists(st.tuples(st.sampled_from("ab"), upserts, st.none() | st.integers(1, 12)), min_size=1, max_size=7)


def write_in_turns(table: Table, given_turns: Sequence[tuple[str, Upserts, int | None]]) -> None:
    """Two writers; one that dies leaves its batch to its next turn, and what it has logged to the other."""
    unfinished: dict[str, Upserts] = {}
    done: Counter[str] = Counter()
    finishing: list[tuple[str, Upserts, int | None]] = [("a", [], None), ("b", [], None)]
    writers: dict[str, LocalWriter] = {}
    for user, given_batch, dies_after in [*given_turns, *finishing]:
        batch = unfinished.pop(user, given_batch)
        steps = iter(range(10**6 if dies_after is None else dies_after))

        def observe(step: Step, _user: str, _identifier: int, _bucket: int | None, steps: Any = steps) -> None:
            if next(steps, None) is None:
                raise InjectedCrash(step)

        writers[user] = writer = writers.get(user) or LocalWriter(table, user)
        writer.observe = observe
        rows = table_of(batch, SCHEMA)
        try:
            writer.write(done[user], rows, pa.array([0] * rows.num_rows, pa.int8()))
        except InjectedCrash:
            unfinished[user] = batch
            del writers[user]
        else:
            done[user] += 1


def check_turns(given_turns: Sequence[tuple[str, Upserts, int | None]], bootstrap_servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    options = LOGGED | {"changelog-producer": "lookup"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=options)
    write_in_turns(table, given_turns)
    changes = [change for bucket in range(2) for change in log_changes(table, bucket)]
    for snapshot, state in snapshot_states(table):
        logged = _until(changes, state.logged.positions)
        rows = table.to_arrow(snapshot_id=snapshot.id)
        assert Counter(_fold(logged, ["k"]).values()) == Counter(texts_of(rows))
        counts: Counter[int | None] = Counter()
        for _, _, kind, row in logged:
            counts[row["g"][0].as_py()] += 1 if RowKind(kind).is_add else -1
        assert +counts == Counter(rows["g"].to_pylist())
        assert min(counts.values(), default=0) >= 0
    assert sum(batch.num_rows for batch in table.changes()) == len(changes)
    catalog.drop_table("db.t")


def test_counts_by_group_with_retractions_are_those_of_the_table_with_two_writers(bootstrap_servers: str) -> None:
    """Old rows are looked up behind the fence: also among what the other writer has logged and not committed."""

    @settings(
        max_examples=examples(8),
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(given_turns=turns)
    def law(given_turns: list[tuple[str, Upserts, int | None]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check_turns(given_turns, bootstrap_servers, Path(folder))

    law()


def test_a_stream_of_repeated_ids_counts_each_once(tmp_path: Path, bootstrap_servers: str) -> None:
    """The guide's first example."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=LOGGED | {"bucket": "1"})
    writer = LocalWriter(table, "a")
    for identifier, rows in enumerate(([(1, 7, 1), (2, 7, 1)], [(1, 8, 2), (1, 9, 3)], [(2, 7, 2)])):
        writer.write(identifier, table_of(rows, SCHEMA), None)
    changes = [(RowKind(kind).short, *row.to_pylist()[0].values()) for _, _, kind, row in log_changes(table, 0)]
    assert changes == [
        ("+I", 1, 7, 1),
        ("+I", 2, 7, 1),
        ("-U", 1, 7, 1),
        ("+U", 1, 9, 3),
        ("-U", 2, 7, 1),
        ("+U", 2, 7, 2),
    ]


def test_a_writer_that_does_not_know_a_column_takes_no_old_value_of_it_away(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    older = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=LOGGED)
    newer = older.alter(AddColumn("w", "BIGINT"))
    LocalWriter(older, "b").write(0, table_of([(1, 1, 1)], SCHEMA), None)
    LocalWriter(newer, "a").write(0, table_of([(1, 2, 2, 9)], SCHEMA.append(pa.field("w", pa.int64()))), None)
    with pytest.raises(InvalidRequestError, match="the table's schema has changed since it was opened"):
        LocalWriter(older, "b").write(1, table_of([(1, 1, 1)], SCHEMA), None)
    LocalWriter(catalog.load_table("db.t"), "b").write(1, table_of([(1, 3, 3)], SCHEMA), None)
    changes = [change for bucket in range(2) for change in log_changes(newer, bucket)]
    assert [row["w"][0].as_py() for _, _, _, row in changes] == [None, None, 9, 9, None]
