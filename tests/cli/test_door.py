"""What others have chosen as names, comments and cells drives no terminal, by whichever command it is printed."""

from __future__ import annotations

import ast
import json
import logging
import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from typer.models import CommandInfo, TyperInfo

from lakelog.catalog import Catalog, Table
from lakelog.cli import main
from lakelog.cli.console import door
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import escaped
from tests.cli.conftest import Run
from tests.support.attacks.hostile_text import COLUMN, HOSTILE, MARKUP, ODD, driving, make_hostile_warehouse

CLI = Path(door.__file__).parent
T = "db.t"
JOB = f"job {HOSTILE}"

# Every command, as it prints what stands in the table, or in arguments; those of logs name the table in their errors.
COMMANDS: dict[str, list[list[str]]] = {
    "database create": [["db"], [HOSTILE]],
    "database drop": [["db"], [HOSTILE, "--yes"]],
    "database list": [[]],
    "dead-letter replay": [[f"db.{HOSTILE}", "--checkpoint", HOSTILE]],
    "broker start": [[f"s3://{HOSTILE}"]],
    "broker status": [[HOSTILE]],
    "broker stop": [[HOSTILE]],
    "doctor": [[f"db.{HOSTILE}"], [T, "--as", HOSTILE]],
    "ingest": [[HOSTILE, f"db.{HOSTILE}", "--checkpoint", HOSTILE]],
    "lineage consistent": [[T], [T, "--at", HOSTILE], [f"db.{HOSTILE}"]],
    "lineage delete": [[JOB], [HOSTILE, "--yes"]],
    "lineage downstream": [[T]],
    "lineage end": [[HOSTILE], [JOB]],
    "lineage feed": [["--data-lineage", "--table-lineage"]],
    "lineage fields": [[T], [f"{T}.{COLUMN}", "--csv"], [f"{T}.{HOSTILE}"], [HOSTILE, "--start", HOSTILE]],
    "lineage impact": [[T], [f"{T}.{COLUMN}"], [f"{T}.{HOSTILE}"]],
    "lineage jobs": [[]],
    "lineage mended": [[T, "--of", HOSTILE], [T, "--of", "db.t@1", "--by", HOSTILE]],
    "lineage rebuild": [[]],
    "lineage serve": [["--host", HOSTILE], ["--token", HOSTILE], ["--host", "0.0.0.0"]],
    "lineage show": [[T], [T, "--snapshot-id", "4"]],
    "lineage tainted": [[T, "--snapshot-id", "2"], [T, "--snapshot-id", "2", "--column", COLUMN]],
    "lineage upstream": [[T]],
    "log abandon-writer": [[T, HOSTILE]],
    "log add": [[T, "-o", f"{HOSTILE}=1"]],
    "log check": [[T]],
    "log drop-ended": [[T, "--older-than", HOSTILE]],
    "log remove": [[T]],
    "log renew": [[T]],
    "log repair": [[T]],
    "log settle": [[T], [T, "--wait", HOSTILE]],
    "log tail": [[T, "--key", HOSTILE]],
    "log end-transactions": [[T, "--older-than", HOSTILE]],
    "log verify": [[T]],
    "options": [[]],
    "sql": [
        ["-e", f"SELECT * FROM {T}"],
        ["--csv", "-e", f"SELECT * FROM {T}"],
        ["-e", f"DESCRIBE EXTENDED {T}"],
        ["-e", f"SELECT `{HOSTILE}` FROM {T}"],
    ],
    "statement cancel": [[T]],
    "statement finish": [[T]],
    "statement list": [[T]],
    "table alter": [[T, "--widen", f"{COLUMN} INT"], [T, "--comment", f"{COLUMN}={HOSTILE}"]],
    "table branch create": [[T, MARKUP], [T, HOSTILE]],
    "table branch delete": [[T, HOSTILE]],
    "table branch expire": [[T, "--older-than", HOSTILE]],
    "table branch fast-forward": [[T, HOSTILE]],
    "table branch list": [[T]],
    "table branch replace-newer": [[T, HOSTILE]],
    "table branch rename": [[T, MARKUP, HOSTILE]],
    "table branch replace-main": [[T, HOSTILE]],
    "table cat": [[T], [T, "--changes"], [T, "--where", HOSTILE], [T, "--columns", COLUMN]],
    "table compact": [[T]],
    "table consumer list": [[T]],
    "table count": [[T], [f"db.{HOSTILE}"], [T, "--where", f"`{COLUMN}` = 1"]],
    "table create": [[f"db.{HOSTILE}", "-c", "id INT"], ["db.u", "-c", f"id {HOSTILE}"]],
    "table consumer delete": [[T, HOSTILE]],
    "table describe": [[T], [f"db.{HOSTILE}"]],
    "table diff": [[T, "--from", "1", "--to", "2"], [T, "--from", HOSTILE]],
    "table drop": [[T], [f"db.{HOSTILE}", "--yes"]],
    "table drop-partitions": [[T, "--where", HOSTILE], [T, "--where", "p = 'none'"]],
    "table expire-snapshots": [[T, "--older-than", HOSTILE]],
    "table files": [[T], [T, "--snapshot-id", "nine"]],
    "table find-commit": [[T, HOSTILE]],
    "table list": [[], [HOSTILE]],
    "table follow": [[T, "--until", "latest"], [T, "--until", "latest", "--where", HOSTILE], [T, "--start", HOSTILE]],
    "table history": [[T], [ODD]],
    "table merge": [[T, MARKUP, "--dry-run"], [T, HOSTILE]],
    "table consumer clear": [[T, "--including", HOSTILE]],
    "table expire-partitions": [[T]],
    "table partitions": [[T]],
    "table tag get": [[T, HOSTILE], [T, MARKUP]],
    "table tag next": [[T, HOSTILE]],
    "table tag previous": [[T, HOSTILE]],
    "log open-transactions": [[T]],
    "table new-identity": [[f"db.{HOSTILE}"]],
    "table remove-orphan-files": [[T]],
    "table rename": [[f"db.{HOSTILE}", T]],
    "table rescale": [[T, "--buckets", HOSTILE]],
    "table consumer reset": [[T, HOSTILE, "--next-snapshot", "1"]],
    "table restore": [[T, "--snapshot-id", "1", "--dry-run"]],
    "table rollback": [[T, "--snapshot-id", "3", "--dry-run"]],
    "table schema": [[T]],
    "table show": [
        *([T, name] for name in ("files", "snapshots", "partitions", "schemas", "audit_log", "tags", "branches",
                                 "consumers", "options", "manifests", "binlog")),
        ["sys.tables"], [T, HOSTILE],
    ],
    "table snapshots": [[T]],
    "table tag create": [[T, HOSTILE], [T, MARKUP]],
    "table tag delete": [[T, HOSTILE]],
    "table tag expire": [[T]],
    "table tag list": [[T], [ODD]],
    "table tag rename": [[T, MARKUP, HOSTILE]],
    "table tag replace": [[T, HOSTILE]],
}  # fmt: skip
RUNS = [[*name.split(), *given] for name, all_given in COMMANDS.items() for given in all_given]


def names_of(commands: list[CommandInfo], groups: list[TyperInfo], before: str = "") -> Iterator[str]:
    """The names of all commands as users type them."""
    for command in commands:
        assert command.callback is not None
        yield before + (command.name or command.callback.__name__.replace("_", "-"))
    for group in groups:
        assert group.typer_instance is not None
        inner = group.typer_instance
        yield from names_of(inner.registered_commands, inner.registered_groups, f"{before}{group.name} ")


def test_every_command_is_run_over_the_hostile_table() -> None:
    app = main.make_app()
    assert sorted(names_of(app.registered_commands, app.registered_groups)) == sorted(COMMANDS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(make_hostile_warehouse(tmp_path_factory.mktemp("hostile")).path).parents[1]


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered by no. The tables of `ingest` are missing: an error before a Spark is started."""
    monkeypatch.setattr("sys.stdin", StringIO("n\n"))
    monkeypatch.setattr("lakelog.cli.logs.ingest._session", None)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("words", RUNS, ids=[f"{' '.join(words[:2])}-{number}" for number, words in enumerate(RUNS)])
def test_no_command_prints_what_drives_a_terminal(run: Run, made: Path, words: list[str], as_json: bool) -> None:
    known = ["--json"] if as_json else []
    where = [] if words[0] in {"options", "broker"} else ["--warehouse", str(made)]
    code, out, err = run(*words, *where, *known)

    assert driving(out) == set()
    assert driving(err) == set()
    assert "Traceback" not in err
    assert code in {0, 1, 2, 3}
    assert not any(line.startswith("lakelog: done") for line in err.splitlines())
    if as_json and code != 2 and "Aborted." not in err:  # the arguments are typer's
        for line in f"{out}{err}".splitlines():
            json.loads(line)


@pytest.mark.parametrize("words", [["table", "history", T], ["lineage", "show", T], ["table", "describe", T]])
def test_on_a_terminal_only_colours_of_ours_are_control_sequences(
    run: Run, made: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    code, out, _ = run(*words, "--warehouse", str(made))
    assert code == 0
    assert driving(out, own_styles=True) == set()
    assert r"\u001b]8;;" in out


@pytest.mark.parametrize("words", [["describe", T], ["snapshots", T], ["files", T], ["history", T]])
def test_without_the_door_the_text_would_come_through(
    run: Run, made: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """What the tests above find where the door escapes nothing."""
    for place in ("cli.console.door", "cli.console.output", "common.errors"):
        monkeypatch.setattr(f"lakelog.{place}.escaped", lambda text, **_: text)
    _, out, err = run("table", *words, "--warehouse", str(made))
    assert driving(out + err) >= {"\x1b", "\u202e"}


def test_json_holds_the_very_text(run: Run, made: Path) -> None:
    (row,) = map(json.loads, run("table", "cat", T, "-w", str(made), "--limit", "1")[1].splitlines())
    assert row == {"id": 1, "p": HOSTILE, COLUMN: f"{HOSTILE} again"}
    described = json.loads(run("table", "describe", T, "-w", str(made), "--json")[1])
    assert described["comment"] == HOSTILE
    assert [column["name"] for column in described["columns"]] == ["id", "p", COLUMN]


def test_a_column_with_markup_is_a_heading_as_it_is(run: Run, tmp_path: Path) -> None:
    Catalog(tmp_path).create_table("db.m", schema="id INT, `c[/]` INT", primary_keys=["id"])
    table = Catalog(tmp_path).load_table("db.m")
    for number in (1, 2):
        table.write(pa.table({"id": [1], "c[/]": [number]}))
    code, out, err = run("table", "diff", "db.m", "--from", "1")
    assert (code, err) == (0, "")
    assert "c[/]" in out


def test_an_error_as_python_prints_it_drives_no_terminal(made: Path) -> None:
    """A traceback of the user's own program prints it without our door."""
    table: Table = Catalog(made).load_table(T)
    for wrong in (lambda: table.count(where=HOSTILE), lambda: table.to_arrow(columns=[HOSTILE])):
        with pytest.raises(InvalidRequestError) as caught:
            wrong()
        assert driving(str(caught.value)) == set()
    assert driving(repr(table.schema)) == driving(repr(table)) == driving(repr(table.history())) == set()
    assert driving(table._repr_html_()) == driving(table.history()._repr_html_()) == set()


def test_warnings_and_logs_come_through_the_door(capsys: pytest.CaptureFixture[str]) -> None:
    with door.foreign_lines():
        warnings.showwarning(UserWarning(HOSTILE), UserWarning, "file.py", 1)
        logging.lastResort.handle(logging.makeLogRecord({"msg": HOSTILE, "levelno": logging.ERROR}))  # type: ignore[union-attr]
    printed = capsys.readouterr().err
    assert r"\u001b" in printed
    assert driving(printed) == set()


def test_a_bug_is_a_trace_that_drives_no_terminal(run: Run, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("lakelog.cli.console.verb_commands.find_table", broken)
    code, _, err = run("table", "compact", T, "-w", str(made))
    assert (code, "Traceback" in err, driving(err)) == (1, True, set())


def test_only_the_door_and_the_drawing_know_the_streams() -> None:
    """By construction: no other module of the command line can print around the door."""
    found = {
        (path.name, name)
        for path in CLI.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _printers(node)
    }
    assert {path for path, _ in found} == {"door.py", "output.py"}
    assert {name for path, name in found if path == "output.py"} == {"rich"}


def _printers(node: ast.AST) -> Iterator[str]:
    """What a piece of code could print with: the streams, print, rich, and the printing functions of typer."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
        yield from (one.partition(".")[0] for one in names if one.partition(".")[0] in {"rich", "click"})
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        name = f"{node.value.id}.{node.attr}"
        streams = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "os.write"}
        if name in streams | {f"typer.{one}" for one in ("echo", "secho", "confirm", "prompt", "progressbar")}:
            yield name
    if isinstance(node, ast.Name) and node.id == "print":
        yield "print"


@pytest.mark.parametrize("text", ["", "plain", "größer 東京\u3000x", "\u0646\u200c\u062e", "[/][bold]"])
def test_text_that_prints_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_what_does_not_print_is_the_escape_of_json() -> None:
    hostile = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xAD, *range(0x2028, 0x202F), 0xD800, 0xE0001]))
    shown = escaped(hostile)
    assert json.loads(f'"{shown}"') == hostile
    assert driving(shown) == set()
    assert escaped("a\nb", kept="\n") == "a\nb"
