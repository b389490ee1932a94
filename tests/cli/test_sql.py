"""`lakelog sql` as a user types it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from tests.cli.conftest import Run

MADE = "CREATE DATABASE db; USE db; CREATE TABLE t (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED);"
ROWS = "INSERT INTO t VALUES (1, 'a'), (2, NULL); SELECT * FROM t ORDER BY id"


def test_a_script_is_run_in_order(run: Run) -> None:
    assert run("sql", "-e", f"{MADE} {ROWS}")[1].splitlines() == ["id  v", "1   a", "2   NULL"]
    assert run("sql", "--csv", "-e", "SELECT * FROM db.t ORDER BY id")[1] == "id,v\n1,a\n2,\n"
    lines = run("sql", "--json", "-e", "SELECT * FROM db.t ORDER BY id")[1].splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1, "v": "a"}, {"id": 2, "v": None}]


def test_a_file_and_a_pipe_hold_statements(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "made.sql"
    script.write_text(f"-- a script\n{MADE}\n{ROWS};\n")
    assert run("sql", "-f", str(script))[1].splitlines()[-1] == "2   NULL"
    with script.open() as given:
        given.seek(script.read_text().index(ROWS))
        monkeypatch.setattr("sys.stdin", given)
        assert run("sql")[0] == 1  # no database is chosen in a new process
    assert Catalog(".").load_table("db.t").count() == 2


def test_the_first_error_ends_a_script(run: Run) -> None:
    code, out, err = run("sql", "-e", f"{MADE} SELECT no FROM t; DROP TABLE t")
    assert (code, out) == (1, "")
    assert 'Referenced column "no" not found' in err
    assert Catalog(".").list_tables("db") == ["t"]


@pytest.mark.parametrize(
    ("words", "told"),
    [(["-e", "SELECT 1", "-f", "x"], "-e and -f"), (["--csv", "--json", "-e", "SELECT 1"], "--csv and --json")],
)
def test_two_of_a_kind_are_refused(run: Run, words: list[str], told: str) -> None:
    code, _, err = run("sql", *words)
    assert code == 1
    assert told in err


TYPED = """USE db;
\\d
SELECT id,
  v FROM t;
SELEC 1;
DROP TABLE t;
n
\\timing
SELECT count(*) AS n FROM t;
\\no
\\q
"""


SEEN = (
    "db         t          False",
    "1   a\n2   NULL",
    "is not a statement",
    "this drops rows. Go on?",
    "not done",
    "n\n2\n",
    " s\n",
    "\\no is not a command",
)


def test_a_shell_reads_lines_asks_before_rows_are_dropped_and_lives_through_errors(run: Run, tmp_path: Path) -> None:
    """A real terminal: a pseudo one of the system, with a process of its own."""
    assert run("sql", "-e", f"{MADE} {ROWS}")[0] == 0
    master, slave = pty.openpty()
    environment = {**os.environ, "HOME": str(tmp_path), "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "lakelog.cli", "sql", "-w", "."]
    shell = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True)
    os.close(slave)
    os.write(master, TYPED.replace("\\\\", "\\").encode())
    seen = b""
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:  # how a terminal whose process has ended says so
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    assert shell.wait(60) == 0
    text = seen.decode().replace("\r\n", "\n")
    for told in SEEN:
        assert told in text, text
    assert Catalog(".").load_table("db.t").count() == 2
    assert "SELECT count(*) AS n FROM t;" in (tmp_path / ".lakelog_history").read_text()
