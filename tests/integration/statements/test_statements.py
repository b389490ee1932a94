"""Batch statements on tables with a log: fold(log) = fold(files) = a model, with crashes and with batches between."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any  # Any: a model's rows

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import logged_table
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import ROW_KIND_TEXTS
from lakelog.filestore.predicate import required_predicate
from lakelog.filestore.write.changing import ChangePlan, delete_plan, update_plan, write_plan
from lakelog.filestore.write.clearing import overwrite_plan
from lakelog.filestore.write.merge_clauses import MergeAction, MergeClause, MergeClauses, MergedRows
from lakelog.filestore.write.merge_statement import merge_plan
from lakelog.filestore.write.row_input import row_source
from lakelog.filestore.write.table_write import Overwrite
from lakelog.protocol.access.kafka_profiles import BOOTSTRAP_KEY
from lakelog.protocol.statements import statements
from lakelog.protocol.statements.statements import Fate
from tests.support.kills.crashing_writer import InjectedCrash, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.promises import read_headers
from tests.support.logs.statements import StatementRunner, check_folds, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
LOGGED = {"bucket": "2", "log.system": "kafka"}
Row = tuple[int, int | None]
Rows = dict[int, Row]
Change = tuple[str, Row]
# Conditions of clauses, with what they say of the value of a source row and of the table's row.
CONDITIONS: dict[str, Callable[[int | None, int | None], bool]] = {
    "source.v > target.v": lambda given, old: given is not None and old is not None and given > old,
    "source.v IS NULL": lambda given, _: given is None,
    "source.v >= 2": lambda given, _: given is not None and given >= 2,
    "target.v >= 2": lambda _, old: old is not None and old >= 2,
}


def clauses_of(*given: tuple[MergedRows, MergeAction, str | None]) -> MergeClauses:
    """Clauses by the rows that they are for, what happens, and their conditions."""
    made = MergeClauses()
    for of, action, condition in given:
        made += MergeClause(of=of, action=action, condition=None if condition is None else pl.sql_expr(condition))
    return made


MATCHED, NOT_MATCHED, BY_SOURCE = MergedRows
UPDATE, DELETE, INSERT = MergeAction
Clauses = tuple[tuple[MergedRows, MergeAction, str | None], ...]
UPSERT: Clauses = ((MATCHED, UPDATE, None), (NOT_MATCHED, INSERT, None))


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its arguments; the steps after which its driver dies; a batch that comes once it is prepared."""

    verb: str
    rows: Sequence[Row] = ()
    bound: int = 0
    clauses: Clauses = UPSERT
    dies_after: int | None = None
    between: Sequence[Change] = ()

    def plan(self, table: Table) -> ChangePlan:
        """How it is worked out."""
        files = table.store
        source = row_source(table_of(list(self.rows), SCHEMA))
        where = required_predicate(f"v >= {self.bound}")
        match self.verb:
            case "write":
                return write_plan(files, source, None)
            case "overwrite":
                return overwrite_plan(files, source, None, Overwrite.EVERYTHING)
            case "delete":
                return delete_plan(files, where)
            case "truncate":
                return delete_plan(files, None)
            case "update":
                return update_plan(files, {"v": pl.col("v") + 10}, where)
            case "merge":
                return merge_plan(files, source, ["k"], clauses_of(*self.clauses))
        raise AssertionError(self.verb)

    def changes(self, rows: Rows) -> list[Change]:
        """What it does to rows with a key, worked out on these."""
        meets = [row for row in rows.values() if row[1] is not None and row[1] >= self.bound]
        given = {row[0]: row for row in self.rows}
        match self.verb:
            case "write":
                return [("+I", row) for row in self.rows]
            case "overwrite":
                return [*(("removed", row) for row in rows.values()), *(("+I", row) for row in self.rows)]
            case "delete":
                return [("removed", row) for row in meets]
            case "truncate":
                return [("removed", row) for row in rows.values()]
            case "update":
                return [("replaced", (key, value + 10)) for key, value in meets if value is not None]
        made: list[Change] = []
        for key, row in rows.items():
            other = given.get(key)
            match self.action(MATCHED if other else BY_SOURCE, other, row):
                case MergeAction.UPDATE:
                    assert other is not None
                    made.append(("replaced", other))
                case MergeAction.DELETE:
                    made.append(("removed", row))
        new = [row for key, row in given.items() if key not in rows]
        return [*made, *(("+I", row) for row in new if self.action(NOT_MATCHED, row, None) is INSERT)]

    def action(self, of: MergedRows, given: Row | None, old: Row | None) -> MergeAction | None:
        """What the first clause does whose condition holds."""
        values = [None if row is None else row[1] for row in (given, old)]
        for which, action, condition in self.clauses:
            if which is of and (condition is None or CONDITIONS[condition](*values)):
                return action
        return None


small = st.integers(0, 4)
rows_of_keys = st.lists(st.tuples(small, st.one_of(st.none(), small)), max_size=4)
unique_rows = st.dictionaries(small, st.one_of(st.none(), small), max_size=4).map(lambda rows: list(rows.items()))
batches = st.lists(st.tuples(st.just("+I"), st.tuples(small, st.one_of(st.none(), small))), min_size=1, max_size=4)
clauses = st.sampled_from(
    [
        UPSERT,
        ((MATCHED, DELETE, None), (NOT_MATCHED, INSERT, "source.v >= 2")),
        ((MATCHED, UPDATE, None), (BY_SOURCE, DELETE, None)),
        ((MATCHED, DELETE, "source.v IS NULL"), (MATCHED, UPDATE, "source.v > target.v"), (NOT_MATCHED, INSERT, None)),
        ((MATCHED, UPDATE, "target.v >= 2"), (BY_SOURCE, DELETE, "target.v >= 2")),
    ]
)


@st.composite
def statements_of(draw: st.DrawFn, verbs: Sequence[str]) -> Statement:
    verb = draw(st.sampled_from(verbs))
    return Statement(
        verb,
        draw(unique_rows if verb == "merge" else rows_of_keys),
        draw(small),
        draw(clauses),
        draw(st.one_of(st.none(), st.none(), st.integers(0, 16))),
        draw(st.one_of(st.just([]), batches)),
    )


def histories(verbs: Sequence[str]) -> st.SearchStrategy[list[Statement | list[Change]]]:
    """Statements, and batches of a stream."""
    return st.lists(st.one_of(statements_of(verbs), statements_of(verbs), batches), min_size=1, max_size=5)


def keep_last(rows: Rows, row: Row) -> None:
    rows[row[0]] = row


def add_up(rows: Rows, row: Row) -> None:
    old = rows.get(row[0], (row[0], None))[1]
    rows[row[0]] = (row[0], row[1] if old is None else old if row[1] is None else old + row[1])


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: options, what an insert does to rows with a key, and the statements that it takes."""

    options: Mapping[str, str]
    insert: Callable[[Rows, Row], None] | None
    verbs: Sequence[str] = ("write", "overwrite", "delete", "truncate", "update", "merge")


KINDS = {
    "upsert": Kind({}, keep_last),
    "all": Kind({"log.changelog-mode": "all"}, keep_last),
    "sum": Kind({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, add_up),
    "append-only": Kind({}, None, ("write", "delete", "truncate")),
    "value-count": Kind({"write-mode": "change-log"}, None, ("write", "overwrite", "delete", "truncate", "update")),
}


class Model:
    """What must be in the table."""

    def __init__(self, kind: Kind) -> None:
        self.insert = kind.insert
        self.rows: Rows = {}
        self.counts: Counter[Row] = Counter()

    def batch(self, changes: Sequence[Change]) -> None:
        for _, row in changes:
            if self.insert is None:
                self.counts[row] += 1
            else:
                self.insert(self.rows, row)

    def worked_out(self, statement: Statement) -> list[Change]:
        """The changes on the rows of now."""
        if self.insert is not None:
            return statement.changes(self.rows)
        there = [row for row, count in self.counts.items() for _ in range(count)]
        meets = [row for row in there if row[1] is not None and row[1] >= statement.bound]
        match statement.verb:
            case "write":
                return [("+I", row) for row in statement.rows]
            case "overwrite":
                return [*(("removed", row) for row in there), *(("+I", row) for row in statement.rows)]
            case "delete":
                return [("removed", row) for row in meets]
            case "truncate":
                return [("removed", row) for row in there]
        return [
            change
            for row in meets
            if row[1] is not None
            for change in (("removed", row), ("+I", (row[0], row[1] + 10)))
        ]

    def apply(self, changes: Sequence[Change]) -> None:
        """The changes in their place in the log."""
        if self.insert is None:
            for kind, row in changes:
                self.counts[row] += -1 if kind == "removed" else 1
            return
        for kind, row in changes:
            if kind == "removed":
                self.rows.pop(row[0], None)
        for kind, row in changes:
            if kind == "+I":
                self.insert(self.rows, row)
            elif kind == "replaced":
                self.rows[row[0]] = row

    @property
    def expected(self) -> Counter[Row]:
        return +self.counts if self.insert is None else Counter(self.rows.values())


def check(kind: Kind, history: Sequence[Statement | list[Change]], servers: str, folder: Path) -> None:
    catalog = Catalog(folder, bootstrap_servers=servers)
    has_key = kind.insert is not None
    keys = ["k"] if has_key else []
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=LOGGED | dict(kind.options))
    writer, model, batch_id = LocalWriter(table, "q"), Model(kind), 0

    def stream(changes: Sequence[Change]) -> None:
        nonlocal batch_id
        kinds = pa.array([ROW_KIND_TEXTS.index(kind) for kind, _ in changes], pa.int8())
        writer.write(batch_id, table_of([row for _, row in changes], SCHEMA), kinds)
        batch_id += 1
        model.batch(changes)

    for one in history:
        if not isinstance(one, Statement):
            stream(one)
            continue
        changes = model.worked_out(one)
        between = partial(stream, one.between) if one.between else None
        runner = StatementRunner(table, one.dies_after, between)
        try:
            runner.run(one.verb, one.plan(table))
        except InjectedCrash:
            if runner.is_begun:
                model.apply(changes)
        else:
            model.apply(changes)
    stream([("+I", (9, 9))])
    assert rows_in(table) == model.expected
    check_folds(table, has_key=has_key)
    _check_whole(table)
    catalog.drop_table("db.t")


def _check_whole(table: Table) -> None:
    """No bucket has a statement twice."""
    times = Counter((bucket, header.user) for bucket, header in read_headers(table) if header.statement is not None)
    assert set(times.values()) <= {1}


@pytest.mark.parametrize("kind", KINDS)
def test_log_and_files_fold_to_what_the_statements_say(
    kind: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(kind, bootstrap_servers, monkeypatch, examples=3)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_log_and_files_fold_to_what_many_statements_say(
    kind: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(kind, bootstrap_servers, monkeypatch, examples=120)


def run(kind: str, servers: str, monkeypatch: pytest.MonkeyPatch, *, examples: int) -> None:
    monkeypatch.setattr(statements, "GRACE_MILLIS", 0)  # a driver that died is not waited for

    @broker_settings(examples)
    @given(history=histories(KINDS[kind].verbs))
    def law(history: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(KINDS[kind], history, servers, Path(folder))

    law()


DAYS = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])


@pytest.mark.parametrize("keys", [("day", "k"), ()], ids=["primary key", "append-only"])
def test_partitions_are_replaced_and_dropped_row_by_row(
    keys: tuple[str, ...], bootstrap_servers: str, tmp_path: Path
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table(
        "db.t", schema=DAYS, primary_keys=keys, partition_keys=["day"], options=LOGGED | {"log.changelog-mode": "all"}
    )
    table.write(pa.table({"k": [1, 2, 3, 4], "day": ["mon", "mon", "tue", "wed"]}, schema=DAYS))
    tuesday = pa.table({"k": [5], "day": ["tue"]}, schema=DAYS)
    if keys:
        with pytest.raises(InvalidRequestError, match="rows of the partition day='tue' do not meet the condition"):
            table.write(tuesday, mode="overwrite", where="day = 'mon'")
        table.write(tuesday, mode="overwrite-partitions")
        table.write(pa.table({"k": [2, 6], "day": ["mon", "mon"]}, schema=DAYS), mode="overwrite", where="day = 'mon'")
        expected = [(2, "mon"), (6, "mon"), (5, "tue"), (4, "wed")]
    else:
        with pytest.raises(UnsupportedError, match=r"takes no overwrite: without primary key.*delete\(where\)"):
            table.write(tuesday, mode="overwrite-partitions")
        expected = [(1, "mon"), (2, "mon"), (3, "tue"), (4, "wed")]
    assert rows_in(table) == Counter(expected)

    assert table.upkeep.drop_partitions("day >= 'tue'") is not None
    assert table.upkeep.drop_partitions("day >= 'tue'") is None

    assert rows_in(table) == Counter(row for row in expected if row[1] == "mon")
    check_folds(table, has_key=bool(keys))


def test_the_history_names_the_statements_that_the_log_has_brought(
    bootstrap_servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=LOGGED)
    table.write(table_of([(1, 1), (2, 2)], SCHEMA))
    table.merge(table_of([(1, 5)], SCHEMA), on=["k"]).when_matched_update_all().execute()
    table.update({"v": 7}, where="k = 2")
    table.delete("k = 1")
    table.write(table_of([(3, 3)], SCHEMA), mode="overwrite")
    table.compact(full=True)
    table.restore(snapshot_id=3)
    expected = ["INSERT", "MERGE", "UPDATE", "DELETE", "OVERWRITE", None, "RESTORE"]
    assert all(snapshot.operation_name is None for snapshot in table.snapshots())  # the log's appends name nothing

    shown = [entry.operation for entry in table.history().lines[0].entries]
    assert [one for one in reversed(shown) if one] == [one for one in expected if one]
    command("table", "history", table.path, "--json")
    printed = [json.loads(line)["operation"] for line in capsys.readouterr().out.splitlines()]
    assert printed == shown
    command("table", "history", table.path)
    assert "restore" in capsys.readouterr().out.splitlines()[2]
    assert table.system.table("snapshots").to_arrow()["operation"].to_pylist() == shown[::-1]
    command("table", "snapshots", table.path)
    assert " INSERT " in capsys.readouterr().out.splitlines()[1]


def test_a_statement_that_nobody_began_is_listed_and_cancelled(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(BOOTSTRAP_KEY, bootstrap_servers)
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["k"], options=LOGGED)
    rows = table_of([(1, 1), (2, 2)], SCHEMA)
    runner = StatementRunner(table, dies_after=1)  # after the prepared commit was created
    with pytest.raises(InjectedCrash):
        runner.run("INSERT", write_plan(table.store, row_source(rows), None))
    logged = logged_table(table)
    ((name, prepared, is_begun),) = logged.unfinished()
    assert (prepared.operation, prepared.row_count, is_begun) == ("INSERT", 2, False)
    assert table.upkeep.remove_orphan_files(older_than="0 s", allow_young=True).files == ()

    command("statement", "list", table.path, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "name": name, "operation": "INSERT", "rows": 2, "time_millis": prepared.time_millis, "is_begun": False
    }  # fmt: skip
    command("statement", "cancel", table.path)
    assert capsys.readouterr().out == f"{name}: cancelled\n"
    assert logged.cancel(name) is Fate.DECIDED_BEFORE

    assert logged.unfinished() == []
    assert rows_in(table) == Counter()
    assert not runner.is_begun
    assert len(table.upkeep.remove_orphan_files(older_than="0 s", allow_young=True).files) == len(prepared.parts)


def command(*words: str) -> None:
    """Run a command line that ends well."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
