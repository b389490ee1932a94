"""Deaths inside of a batch statement, at its calls to files and to Kafka: it is in the table whole, or not at all.

For each kind of table with a log. `test_statement_kills` kills real processes at the steps of the protocol; here a call
that is cut off between two steps counts too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import logged_table
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.statements import branch_merging, statements
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.kills.dying_process import counting_kafka, fence
from tests.support.logs.logged_lines import KINDS, Kind, Row
from tests.support.logs.statements import check_folds, rows_in
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, in_new_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KEYS = 4
Rows = Counter[Row]


def insert(table: Table, number: int) -> object:
    return table.write(rows_of(number))


def update(table: Table, number: int) -> object:
    return table.update({"batch": number}, f"id < {KEYS}")


def delete(table: Table, _number: int) -> object:
    return table.delete(f"id < {KEYS // 2}")


def rows_of(number: int, first: int = 0, ids: int = KEYS) -> pa.Table:
    return pa.table([list(range(first, first + ids)), [number] * ids], schema=SCHEMA)


def after_insert(kind: Kind, rows: Rows, number: int) -> Rows:
    found = Rows(rows)
    kind.put(found, [(key, number) for key in range(KEYS)])
    return +found


def after_update(_kind: Kind, rows: Rows, number: int) -> Rows:
    changed: Rows = Counter()
    for (key, value), times in rows.items():
        changed[key, number if key < KEYS else value] += times
    return changed


def after_delete(_kind: Kind, rows: Rows, _number: int) -> Rows:
    return Counter({row: times for row, times in rows.items() if row[0] >= KEYS // 2})


VERBS: Mapping[str, tuple[Callable[[Table, int], object], Callable[[Kind, Rows, int], Rows]]] = {
    "INSERT": (insert, after_insert),
    "UPDATE": (update, after_update),
    "DELETE": (delete, after_delete),
}


class Deaths:
    """A table, its rows, and one statement after the other that dies."""

    def __init__(self, catalog: Catalog, kind: Kind) -> None:
        self.catalog, self.kind = catalog, kind
        options = {"bucket": "2", "log.system": "kafka", **kind.options}
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=kind.keys, options=options)
        self.path = table.path
        self.rows: Rows = Counter()
        self.number = 0
        self.deaths = 0
        self.found: Counter[str] = Counter()

    def opened(self, file_io: FaultyFileIO | None = None) -> Table:
        """The table as a new process has it."""
        return Table(in_new_process(self.path, file_io or UNSYNCED), bootstrap_servers=self.catalog._bootstrap_servers)

    def run(self, verb: str, fails_at: int) -> bool:
        """One statement that dies at a call, and what the next process finds. False once it has fewer calls."""
        self.number += 1
        act, model = VERBS[verb]
        self.opened().write(rows_of(-self.number))  # so that each statement has all rows before it
        before = self.rows = after_insert(self.kind, self.rows, -self.number)
        after = model(self.kind, before, self.number)
        faulty = FaultyFileIO(UNSYNCED, fails_at=fails_at, after_effect=self.number % 2 == 0)
        where = f"{verb} at call {fails_at}"
        try:
            with counting_kafka(faulty):
                act(self.opened(faulty), self.number)
        except InjectedCrash as crash:
            where += f", {crash}"
        fence(self.opened())
        assert rows_in(self.opened()) in (before, after), f"{where}: a part of it is in the table"
        insert_one = [(1_000 + self.number, 0)]
        self.opened().write(rows_of(0, 1_000 + self.number, 1))  # whoever comes next finishes it, or takes it back
        self.kind.put(before, insert_one)
        self.kind.put(after, insert_one)
        found = rows_in(self.opened())
        assert found in (+before, +after), f"{where}: a part of it is in the table after the next statement"
        assert faulty.has_failed or found == +after, where
        for name in PreparedCommits(self.opened().store).names():  # else each later statement looks at it
            logged_table(self.opened()).cancel(name)
        assert rows_in(self.opened()) == found, where
        self.rows = found
        self.deaths += faulty.has_failed
        self.found["done" if found == +after else "out"] += faulty.has_failed
        return faulty.has_failed


def run_deaths(deaths: Deaths, *, stride: int) -> None:
    has_deletes = bool(deaths.kind.keys) or "write-mode" in deaths.kind.options
    for verb in VERBS if has_deletes else ("INSERT",):
        for fails_at in count(1, stride):
            if not deaths.run(verb, fails_at):
                break
    table = deaths.opened()
    check_folds(table, has_key=bool(deaths.kind.keys))
    assert PreparedCommits(table.store).names() == []
    print(f"{deaths.deaths} deaths, {dict(deaths.found)}")
    deaths.catalog.drop_table("db.t")


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (statements, branch_merging):
        monkeypatch.setattr(module, "GRACE_MILLIS", 0)


@pytest.mark.parametrize("kind", ["upsert", "value count"])  # `--full` tries all kinds, at more calls
def test_a_death_inside_of_a_statement_leaves_it_whole_or_out(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    run_deaths(Deaths(Catalog(tmp_path, bootstrap_servers=bootstrap_servers), KINDS[kind]), stride=37)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_death_at_any_call_of_a_statement_leaves_it_whole_or_out(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    run_deaths(Deaths(Catalog(tmp_path, bootstrap_servers=bootstrap_servers), KINDS[kind]), stride=7)
