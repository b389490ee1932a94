"""What every command has in common: `--json`, errors, exit codes, help, completion and progress."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.models import CommandInfo

from lakelog.catalog import Catalog
from lakelog.cli import main
from lakelog.cli.console.arguments import AsJson
from lakelog.cli.console.output import progress
from lakelog.common.progress import counted
from tests.cli.conftest import Run


def commands_of(app: typer.Typer) -> Iterator[CommandInfo]:
    yield from app.registered_commands
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands_of(group.typer_instance)


COMMANDS = list(commands_of(main.make_app()))
HELP_MAX = 55  # characters beside the longest name of a command in 80 columns


def callback_of(command: CommandInfo) -> Callable[..., object]:
    assert command.callback is not None
    return command.callback


@pytest.fixture
def in_a_warehouse(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    Catalog(tmp_path).create_table("db.t", schema=schema, primary_keys=["id"]).write(pa.table({"id": [1, 2]}))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name or callback_of(command).__name__)
def test_every_command_takes_json_and_says_on_one_line_what_it_does(command: CommandInfo) -> None:
    callback = callback_of(command)
    assert inspect.signature(callback, eval_str=True).parameters["as_json"].annotation == AsJson
    first_line = command.short_help or (inspect.getdoc(callback) or "").partition("\n")[0]
    assert first_line.endswith(".")
    assert len(first_line) <= HELP_MAX


@pytest.mark.usefixtures("in_a_warehouse")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("table list", {"database": "db", "table": "t"}),
        ("table alter db.t --add 'c INT'", {"schema_id": 1}),
        ("table compact db.t", {"snapshot_id": None}),
        ("table rescale db.t --buckets 2", {"bucket_count": 2}),
        ("table new-identity db.t", {"path": ..., "uuid": ...}),
        ("table create db.u -c 'id INT'", {"name": "db.u", "path": ...}),
        ("table expire-snapshots db.t", {"deleted_snapshots_count": 0, "snapshot_ids": [], "changelog_ids": [],
                                         "data_files": 0, "metadata_files": 0, "log_starts": {}}),
        ("broker stop", {"was_running": False}),
        ("broker status", {"bootstrap_servers": None}),
    ],
)  # fmt: skip
def test_what_is_done_is_one_json_object(run: Run, words: str, expected: dict[str, object]) -> None:
    _, out, err = run(*shlex.split(words), "--json")
    found = json.loads(out)
    assert err == ""
    assert found | {key: ... for key, value in expected.items() if value is ...} == expected


def test_options_and_schema_are_json_lines(run: Run, in_a_warehouse: None) -> None:
    options = [json.loads(line) for line in run("options", "--json")[1].splitlines()]
    assert {"group", "key", "type", "default", "meaning"} == set(options[0])
    assert json.loads(run("table", "schema", "db.t", "--json")[1])["primaryKeys"] == ["id"]
    assert run("table", "schema", "db.t", "--json")[1].count("\n") == 1


@pytest.mark.usefixtures("in_a_warehouse")
def test_an_error_is_a_json_object_with_json_and_a_line_without(run: Run) -> None:
    code, out, err = run("table", "count", "db.no", "--json")
    assert (code, out) == (1, "")
    assert json.loads(err).keys() == {"error", "message"}
    assert json.loads(err)["error"] == "NotFoundError"
    assert run("table", "count", "db.no")[2].startswith("lakelog: table db.no does not exist")


def test_a_wrong_argument_is_exit_code_2_and_names_what_was_meant(run: Run) -> None:
    code, _, err = run("tabel")
    assert code == 2
    assert "Did you mean 'table'" in err


def test_the_version_is_that_of_the_distribution(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("lakelog 0.")


def test_shells_complete_commands_and_options() -> None:
    env = {**os.environ, "_LAKELOG_COMPLETE": "complete_bash", "COMP_WORDS": "lakelog table c", "COMP_CWORD": "2"}
    command = [sys.executable, "-c", "from lakelog.cli.main import main; main()"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert {"cat", "compact", "consumer", "count", "create"} <= set(ended.stdout.split())


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("compacting db.t"):
        assert list(counted([1, 2], "buckets merged", total=2)) == [1, 2]
    assert "compacting db.t: buckets merged" in terminal.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with progress("compacting db.t"):
        assert list(counted([1, 2], "buckets merged", total=2)) == [1, 2]
    assert file.getvalue() == ""


@pytest.mark.parametrize("words", [["table", "merge"], ["table", "restore"], ["log", "repair"], ["ingest"], ["doctor"]])
def test_a_help_breaks_its_lines_where_the_terminal_ends_and_nowhere_else(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 2_000)
    text = run(*words, "--help")[1]
    command = next(one for one in COMMANDS if words[-1] in (one.name, callback_of(one).__name__))
    for paragraph in (command.help or inspect.getdoc(callback_of(command)) or "").split("\n\n"):
        assert f" {' '.join(paragraph.split())} " in text


def test_a_command_that_shows_nothing_is_not_said_to_show_a_snapshot(run: Run) -> None:
    for words in (["tag", "create"], ["tag", "replace"], ["branch", "create"]):
        assert "Show this" not in run("table", *words, "--help")[1].replace("Show this message", "")
