"""Verbs are declared once: every door, the guards and the pages are what the declarations say."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from scripts import verb_tables
from scripts.api_page import members_of

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, Table
from lakelog.catalog.procedures.procedures import PROCEDURES
from lakelog.catalog.verbs.declared import DeclaredVerb, answer_of, declared_verbs, table_groups
from lakelog.cli import main as command_line
from lakelog.cli.main import main
from lakelog.filestore.refs import SnapshotChoice
from lakelog.warehouse.verb import FORCE, STATE, Loses
from tests.cli.test_door import names_of

ROOT = Path(__file__).parents[2]
DECLARED = {one.python: one for one in declared_verbs()}
LOSING = [one for one in DECLARED.values() if one.verb.loses is not Loses.NOTHING]
# Verbs of groups with a command of its own, which shows more than an answer.
WRITTEN = {"log_store.tail": "log tail", "system.table": "table show", "upkeep.doctor": "doctor"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def commands() -> list[str]:
    app = command_line.make_app()
    return [*names_of(app.registered_commands, app.registered_groups)]


def test_every_verb_of_a_group_is_declared_or_has_a_command_of_its_own() -> None:
    verbs = {
        f"{group}.{name}"
        for group, kind in table_groups().items()
        for name, member in members_of(kind)
        if inspect.isfunction(member)
    }
    assert verbs - DECLARED.keys() == WRITTEN.keys()
    assert set(WRITTEN.values()) <= set(commands())


def test_every_declared_verb_has_one_command_and_its_procedures() -> None:
    counts = Counter(commands())
    assert {one.python: counts[" ".join(one.command)] for one in DECLARED.values()} == dict.fromkeys(DECLARED, 1)
    called = [call.name for one in DECLARED.values() for call in one.verb.calls]
    assert [name for name, count in Counter(called).items() if count > 1] == []
    assert set(called) <= PROCEDURES.keys()


def test_no_verb_is_described_twice() -> None:
    """No command and no procedure beside those of the declarations calls a declared verb, or has its words."""
    folders = ("cli", "catalog/procedures")
    texts = {
        path: path.read_text("utf-8")
        for folder in folders
        for path in (ROOT / "connector" / "lakelog" / folder).rglob("*.py")
    }
    calls = re.compile(r"\.({})\.(\w+)\(".format("|".join(table_groups())))
    found = {
        f"{path.relative_to(ROOT)}: {group}.{name}"
        for path, text in texts.items()
        for group, name in calls.findall(text)
        if f"{group}.{name}" in DECLARED
    }
    assert found == set()
    summaries = {one.verb.summary for one in DECLARED.values()}
    assert [f"{path}: {one}" for path, text in texts.items() for one in summaries if f'"{one}"' in text] == []


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_a_procedure_takes_what_the_method_takes(declared: DeclaredVerb) -> None:
    known = declared.verb.parameters()
    for call in declared.verb.calls:
        procedure = PROCEDURES[call.name]
        names = {one.name for one in procedure.parameters}
        assert {one.of for one in procedure.parameters} - {"table", *call.also} <= known.keys()
        assert {of for of in call.names.values() if of not in call.also} <= known.keys()
        if not call.needs:  # every parameter, but for the branch of a state: `table$branch_b` names it
            assert {*known} - {one.of for one in procedure.parameters} <= {"branch", *call.names}
        if declared.verb.loses is not Loses.NOTHING:
            assert FORCE in names


def test_the_names_of_a_state_are_those_of_reads() -> None:
    assert {name: kind.__forward_arg__ for name, kind in SnapshotChoice.__annotations__.items()} == {
        name: STATE[name] for name in SnapshotChoice.__annotations__
    }
    assert STATE.keys() == SnapshotChoice.__annotations__.keys()


@pytest.mark.parametrize("page", verb_tables.PAGES)
def test_the_tables_of_the_guide_are_made_from_the_declarations(page: str) -> None:
    text = (verb_tables.GUIDE / page).read_text("utf-8")
    assert text == verb_tables.with_tables(page), "run: python -m scripts.verb_tables"


def test_the_help_of_the_root_says_what_each_command_says() -> None:
    """It loads no command, and so has their first lines beside their names."""
    loaded = {name: inspect.getdoc(command_line.load_command(name)) or "" for name in command_line._COMMANDS}
    assert {name: text.partition("\n")[0] for name, text in loaded.items()} == command_line._COMMANDS


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three snapshots, and a branch that began at the second."""
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    for number in (1, 2):
        made.write(pa.table({"id": [number], "v": [number]}, schema=SCHEMA))
    made.branches.create("side")
    made.branch("side").write(pa.table({"id": [7], "v": [7]}, schema=SCHEMA))
    made.write(pa.table({"id": [3], "v": [3]}, schema=SCHEMA))
    return made


# How each losing verb is called on that table; the log's verbs then fail for want of a log.
GIVEN: dict[str, dict[str, object]] = {
    "branches.replace_newer": {"branch": "side"},
    "branches.replace_main": {"branch": "side"},
    "upkeep.rollback": {"snapshot_id": 1},
    "log_store.remove": {},
    "log_store.renew": {},
}
WITHOUT_LOG = "has no log"
LOSING_HERE = [one for one in LOSING if one.python in GIVEN]


# They lose something only where a log is not there: tests/integration/life/test_verbs_with_waiting_batches.py.
ELSEWHERE = {"upkeep.new_identity"}


def test_each_losing_verb_is_called_below() -> None:
    assert GIVEN.keys() | ELSEWHERE == {one.python for one in LOSING}


@pytest.mark.parametrize("declared", LOSING_HERE, ids=lambda one: one.python)
def test_a_losing_verb_wants_an_argument_in_python(table: Table, declared: DeclaredVerb) -> None:
    verb = getattr(declared.owner(table), declared.verb.name)
    with pytest.raises(InvalidRequestError, match="give force=True to do so"):
        verb(**GIVEN[declared.python])
    assert [one.id for one in table.snapshots()] == [1, 2, 3]
    is_done(table, declared, lambda: verb(**GIVEN[declared.python], force=True))


@pytest.mark.parametrize("declared", LOSING_HERE, ids=lambda one: one.python)
def test_a_losing_verb_wants_force_in_call(table: Table, declared: DeclaredVerb) -> None:
    """Both doors of SQL run this procedure; the case files run it through Spark's."""
    connection = lakelog.sql.connect(Catalog(table.warehouse), name="lake")
    (call, *_) = declared.verb.calls
    given = {"table": "db.t", **GIVEN[declared.python]}
    texts = ", ".join(f"{name} => {value!r}" for name, value in given.items())
    with pytest.raises(InvalidRequestError, match="add force => true to do so"):
        connection.sql(f"CALL lake.sys.{call.name}({texts})")
    assert [one.id for one in table.snapshots()] == [1, 2, 3]
    is_done(table, declared, lambda: connection.sql(f"CALL lake.sys.{call.name}({texts}, force => true)"))


@pytest.mark.parametrize("declared", LOSING_HERE, ids=lambda one: one.python)
def test_a_losing_verb_asks_on_the_command_line(
    table: Table, declared: DeclaredVerb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dict(GIVEN[declared.python])
    words = [*declared.command, table.path, *([str(given.pop("branch"))] if "branch" in given else [])]
    words += [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    with pytest.raises(SystemExit) as ended:
        main(words)
    asked = capsys.readouterr()
    assert (ended.value.code, "Do it? [y/N]" in asked.out, "Aborted." in asked.err) == (1, True, True)
    assert [one.id for one in table.snapshots()] == [1, 2, 3]

    def run() -> None:
        with pytest.raises(SystemExit) as done:
            main([*words, "--yes"])
        if done.value.code:
            raise InvalidRequestError(capsys.readouterr().err)

    is_done(table, declared, run)


def is_done(table: Table, declared: DeclaredVerb, call: Callable[[], object]) -> None:
    """With `force` the guard lets the verb run; a verb of a log then says that the table has no log."""
    if declared.group == "log_store":
        with pytest.raises(InvalidRequestError, match=WITHOUT_LOG):
            call()
        return
    call()
    rows = Catalog(table.warehouse).load_table("db.t").to_arrow()["id"].to_pylist()
    assert sorted(rows) == ([1] if declared.python == "upkeep.rollback" else [1, 2, 7])


def test_a_rollback_that_deletes_no_snapshot_and_a_dry_run_lose_nothing(table: Table) -> None:
    assert table.upkeep.rollback(snapshot_id=3).snapshot_ids == ()
    assert table.upkeep.rollback(snapshot_id=1, dry_run=True).snapshot_ids == (2, 3)


def test_old_names_of_commands_and_options_name_the_new_form(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        "table branch merge": "table branch replace-newer",
        "table expire": "table expire-snapshots",
        "table log": "table history",
        "table consumers": "table consumer list",
        "table reset-consumer": "table consumer reset",
        "table delete-consumer": "table consumer delete",
        "log abandon": "log abandon-writer",
        "log transactions": "log end-transactions",
        "lineage up": "lineage upstream",
        "lineage down": "lineage downstream",
        "lineage show --snapshot 1": "--snapshot-id",
        "lineage tainted --snapshot=1": "--snapshot-id",
        "table remove-orphan-files --delete": "--no-dry-run",
        "table describe --partitions": "table partitions",
        "table consumer reset x --next=1": "--next-snapshot",
        "log verify --from 1": "--from-snapshot",
    }
    for words, new in expected.items():
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), table.path])
        assert (ended.value.code, words, new in capsys.readouterr().err) == (2, words, True)
    assert [one.id for one in table.snapshots()] == [1, 2, 3]


@pytest.mark.parametrize("place", ["lakelog table --help", "lakelog log --help"])
def test_the_help_of_a_group_lists_the_declared_verbs(place: str) -> None:
    words = place.split()[1:]
    program = f"from lakelog.cli.main import main; main({words})"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    wanted = {one.command[1] for one in DECLARED.values() if one.command[0] == words[0]}
    assert wanted <= set(re.findall(r"^│ (\S+)", shown.stdout, re.MULTILINE))


def test_an_answer_is_the_same_in_each_door(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    tag = table.tags.create("kept", snapshot_id=2)
    (in_python,) = answer_of(DECLARED["tags.create"].verb, tag)
    connection = lakelog.sql.connect(Catalog(table.warehouse), name="lake")
    (in_sql,) = connection.sql("CALL lake.sys.replace_tag('db.t', 'kept', 2)").to_pylist()
    with pytest.raises(SystemExit):
        main(["table", "tag", "get", table.path, "kept", "--json"])
    assert json.loads(capsys.readouterr().out) == in_sql == in_python
