"""`lakelog sql` as a user types it."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
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


def test_values_are_printed_as_sql_and_json_have_them(run: Run) -> None:
    query = "SELECT true AS b, [1, 2] AS l, MAP {'k': 1} AS m, '\\x00\\xFF'::BLOB AS x, e'a\\nb' AS t, NULL AS n"
    assert run("sql", "-e", query)[1].splitlines()[1].split("  ")[0] == "true"
    assert run("sql", "--csv", "-e", query)[1] == 'b,l,m,x,t,n\ntrue,"[1, 2]","{""k"": 1}",00ff,"a\nb",\n'
    (line,) = run("sql", "--json", "-e", query)[1].splitlines()
    assert json.loads(line) == {"b": True, "l": [1, 2], "m": {"k": 1}, "x": "00ff", "t": "a\nb", "n": None}


def test_numbers_that_json_lacks_are_strings_as_in_the_log(run: Run) -> None:
    query = "SELECT 'NaN'::DOUBLE AS x, ['Infinity'::DOUBLE, 1.5] AS l, {'f': '-Infinity'::FLOAT} AS s"
    found = json.loads(run("sql", "-e", query, "--json")[1], parse_constant=pytest.fail)
    assert found == {"x": "NaN", "l": ["Infinity", 1.5], "s": {"f": "-Infinity"}}


def test_the_lines_of_a_plan_are_not_cut(run: Run) -> None:
    run("sql", "-e", f"{MADE} {ROWS}")
    lines = run("sql", "-e", "EXPLAIN UPDATE db.t SET v = 'x' WHERE id IN (1, 2, 3) AND v LIKE 'a%'")[1].splitlines()
    assert all(line == "plan" or line.lstrip().startswith(("Update", "Projection", "Scan", "Filter")) for line in lines)


def test_a_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path) -> None:
    odd = tmp_path / "odd.sql"
    odd.write_bytes(b"SELECT '\xff'")
    for path, why in ((tmp_path / "none.sql", "No such file"), (odd, "it is not UTF-8"), (tmp_path, "Is a directory")):
        code, _, err = run("sql", "-f", str(path))
        assert code == 1
        assert f"lakelog: -f {path}: {why}" in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [(["-e", "SELECT 1", "-f", "x"], "-e and -f"), (["--csv", "--json", "-e", "SELECT 1"], "--csv and --json")],
)
def test_two_of_a_kind_are_refused(run: Run, words: list[str], told: str) -> None:
    code, _, err = run("sql", *words)
    assert code == 1
    assert told in err


TYPED = """help
USE db;
\\d
SELECT id,
  v FROM t;
SELEC 1;
DROP TABLE t;
n
\\timing
SELECT count(*) AS n FROM t;
\\no
\\x
SELECT true AS yes, ['a'] AS tags, v FROM t WHERE id = 2;
SELECT * FROM t LIMIT 0;
exit
"""


SEEN = (
    "\\x         show rows with one value a line        \\?         this help",
    "db         t          false",
    "1   a\n2   NULL\n(2 rows)",
    "is not a statement",
    "this drops rows. Go on?",
    "not done",
    "n\n2\n(1 row)\n",
    " s\n",
    '-- row 1\nyes   true\ntags  ["a"]\nv     NULL\n(1 row)\n',
    "(0 rows)\n",
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


def test_ctrl_c_ends_a_query_at_once_and_not_the_shell(run: Run, tmp_path: Path) -> None:
    assert run("sql", "-e", f"{MADE} {ROWS}")[0] == 0
    files = {path.name for path in Path("db.db").rglob("data-*")}
    shell, master = pty.fork()
    if shell == 0:
        os.environ |= {"HOME": str(tmp_path), "TERM": "dumb"}
        os.execv(sys.executable, [sys.executable, "-m", "lakelog.cli", "sql", "-w", "."])
    seen = typed(master, b"", b"lakelog> ")
    for query in (
        b"SELECT count(*) AS n FROM range(100000000000);",
        b"INSERT INTO db.t (id) SELECT id FROM range(1000000000) AS r(id);",
    ):
        typed(master, query + b"\n", b";\r\n")
        assert not select.select([master], [], [], 1)[0]  # it runs
        begin = time.monotonic()
        seen = typed(master, b"\x03", b"lakelog> ")
        assert time.monotonic() - begin < 10
        assert b"interrupted" in seen
    assert b"\r\n2\r\n(1 row)" in typed(master, b"SELECT count(*) FROM db.t;\n", b"lakelog> ")
    os.write(master, b"\x04")
    os.waitpid(shell, 0)
    os.close(master)
    assert {path.name for path in Path("db.db").rglob("data-*")} == files


def typed(master: int, text: bytes, until: bytes) -> bytes:
    """What a shell prints after it was given a text, up to its prompt."""
    os.write(master, text)
    seen = b""
    while until not in seen.removeprefix(text):
        assert select.select([master], [], [], 30)[0], seen
        seen += os.read(master, 65_536)
    return seen


def test_names_of_columns_complete_behind_a_table(run: Run) -> None:
    run("sql", "-e", f"{MADE}")
    connection = lakelog.sql.connect(Catalog("."))
    connection.sql("USE db")
    assert "v" not in connection.known_words("SELECT ")
    assert {"v", "id", "t", "SELECT"} <= set(connection.known_words("SELECT * FROM t WHERE "))


def test_a_query_is_ended_from_another_thread(run: Run) -> None:
    connection = lakelog.sql.connect(Catalog("."))
    timer = Timer(0.5, connection.interrupt)
    timer.start()
    with pytest.raises(InvalidRequestError, match="the statement was interrupted"):
        connection.sql("SELECT count(*) FROM range(100000000000)")
    timer.join()
    assert connection.sql("SELECT 1 AS x").num_rows == 1
