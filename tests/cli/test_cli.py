"""The command line as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.cli.conftest import Run
from tests.support.tables.paimon_tables import expected, unpack


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """`lake/db.db/t`: snapshot 1 has two rows, snapshot 2 three."""
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    table = Catalog(tmp_path / "lake").create_table("db.t", schema=schema, primary_keys=["id"])
    table.store.write(pa.table({"id": [1, 2], "name": ["one", None]}))
    table.store.write(pa.table({"id": [2, 3], "name": ["two", "three"]}))
    return table


def rows_of(text: str) -> list[dict[str, object]]:
    return sorted((json.loads(line) for line in text.splitlines()), key=json.dumps)


def test_cat_prints_the_newest_rows_as_json_lines(run: Run, table: Table) -> None:
    code, out, err = run("table", "cat", table.path)

    assert (code, err) == (0, "")
    assert rows_of(out) == [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}, {"id": 3, "name": "three"}]


def test_cat_takes_a_table_by_its_name(run: Run, table: Table) -> None:
    assert run("table", "cat", "db.t", "--warehouse", "lake") == run("table", "cat", "lake/db.db/t")


def test_cat_travels_to_a_snapshot_and_to_a_time(run: Run, table: Table) -> None:
    first = next(table.snapshots())
    expected = [{"id": 1, "name": "one"}, {"id": 2, "name": None}]

    assert rows_of(run("table", "cat", table.path, "--snapshot-id", "1")[1]) == expected
    assert rows_of(run("table", "cat", table.path, "--timestamp", str(first.time_millis))[1]) == expected


def test_cat_prints_the_columns_and_rows_that_are_asked_for(run: Run, table: Table) -> None:
    _, out, _ = run("table", "cat", table.path, "--columns", "name", "--where", "id > 1")

    assert rows_of(out) == [{"name": "three"}, {"name": "two"}]


def test_cat_prints_changes_of_a_range_of_snapshots(run: Run, table: Table) -> None:
    second = [{"_row_kind": "+I", "id": 2, "name": "two"}, {"_row_kind": "+I", "id": 3, "name": "three"}]

    assert rows_of(run("table", "cat", table.path, "--changes", "--after", "1", "--up-to", "2")[1]) == second
    assert len(rows_of(run("table", "cat", table.path, "--changes")[1])) == 4
    assert run("table", "cat", table.path, "--changes", "--after", "2")[:2] == (0, "")
    for option in ("--after", "--up-to"):
        code, out, err = run("table", "cat", table.path, "--changes", option, "99")
        assert (code, out) == (1, "")
        assert "has no snapshot 99" in err
        assert "its newest is snapshot 2" in err
    assert "go with --changes" in run("table", "cat", table.path, "--after", "1")[2]
    assert "--changes goes with" in run("table", "cat", table.path, "--changes", "--where", "id = 1")[2]


def test_cat_reads_tags_and_branches(run: Run, tmp_path: Path) -> None:
    path = str(unpack("tags_branches", tmp_path) / "db.db" / "forwarded")

    tagged = rows_of(run("table", "cat", path, "--tag", "base")[1])
    assert tagged == sorted(expected("tags_branches", "forwarded", "tag-base"), key=json.dumps)
    branch = rows_of(run("table", "cat", path, "--branch", "dev")[1])
    assert branch == sorted(expected("tags_branches", "forwarded", "branch-dev"), key=json.dumps)
    assert "has no tag 'bass'; the tags are base" in run("table", "cat", path, "--tag", "bass")[2]
    assert "has no branch 'dove'" in run("table", "cat", path, "--branch", "dove")[2]
    assert "give one" in run("table", "cat", path, "--tag", "base", "--snapshot-id", "1")[2]


def test_cat_keeps_the_order_of_the_columns(run: Run, table: Table) -> None:
    _, out, _ = run("table", "cat", table.path, "--columns", "name, id", "--where", "id = 1")

    assert list(json.loads(out).items()) == [("name", "one"), ("id", 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table", "cat", "lake/db.db/no"], "lake/db.db/no"),
        (["table", "cat", "db.no", "-w", "lake"], "table db.no does not exist"),
        (["table", "cat", "nothing"], "'nothing' does not name a table"),
        (["table", "cat", "lake/db.db/t", "--snapshot-id", "9"], "9"),
        (["table", "cat", "lake/db.db/t", "--columns", "no"], "no"),
        (["table", "cat", "lake/db.db/t", "--where", "no = 1"], "no"),
        (["table", "cat", "lake/db.db/t", "--timestamp", "soon"], "'soon' is not a timestamp"),
        (["table", "cat", "lake/db.db/t", "--timestamp", "1970-01-02"], "no snapshot at or before"),
        (["table", "cat", "lake/db.db/t", "--timestamp", "2026-01-01", "--snapshot-id", "1"], "give one"),
        (["table", "create", "db.t", "-c", "id BIGINT", "-w", "lake"], "exists already"),
        (["table", "create", "db.u", "-c", "id"], "column 'id' has no type"),
        (["table", "create", "db.u", "-c", "id WHAT"], "WHAT"),
        (["table", "create", "db.u", "-c", "id BIGINT", "-o", "bucket"], "option 'bucket' has no value"),
        (["table", "create", "db.u", "-c", "id BIGINT", "-o", "bukket=1"], "did you mean 'bucket'"),
        (["table", "drop", "db.no", "--yes", "-w", "lake"], "table db.no does not exist"),
        (["table", "list", "no", "-w", "lake"], "database 'no' does not exist"),
        (["table", "schema", "db.no", "-w", "lake"], "table db.no does not exist"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_an_error_is_one_line_and_exit_code_1(run: Run, table: Table, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)

    assert (code, out) == (1, "")
    assert err.startswith("lakelog: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_table_is_created_listed_and_dropped(run: Run) -> None:
    columns = ["-c", "id BIGINT NOT NULL", "-c", "price DECIMAL(10, 2)", "-c", "day DATE"]
    code, out, _ = run("table", "create", "db.u", *columns, "--primary-keys", "id", "-o", "bucket=2")
    assert (code, out) == (0, f"{Path.cwd() / 'db.db' / 'u'}\n")
    assert run("table", "list")[1] == "db.u\n"
    schema = json.loads(run("table", "schema", "db.u")[1])
    assert [field["type"] for field in schema["fields"]] == ["BIGINT NOT NULL", "DECIMAL(10, 2)", "DATE"]
    assert schema["options"]["bucket"] == "2"

    assert run("table", "drop", "db.u", "--yes")[0] == 0
    assert run("table", "list") == (0, "", "")


def test_the_warehouse_may_come_from_the_environment(run: Run, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_WAREHOUSE", "lake")

    assert run("table", "list")[1] == "db.t\n"


def test_snapshots_are_listed_oldest_first(run: Run, table: Table) -> None:
    listed = [json.loads(line) for line in run("table", "snapshots", table.path, "--json")[1].splitlines()]

    assert [row["id"] for row in listed] == [snapshot.id for snapshot in table.snapshots()]
    assert listed[0]["kind"] == "APPEND"
    assert "APPEND" in run("table", "snapshots", table.path)[1]


def test_no_broker_runs_where_none_was_started(run: Run) -> None:
    assert run("broker", "status")[0] == 3
    assert run("broker", "stop")[0] == 0
    assert run("broker", "status", "nowhere")[1].startswith("no broker runs in ")
    assert not Path("nowhere").exists()


def test_a_broker_that_cannot_start_is_an_error_of_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    code, _, err = run("broker", "start", "lake")

    assert code == 1
    assert err.startswith("lakelog: the embedded Kafka broker needs Java")
    assert err.count("\n") == 1


def test_a_reader_that_has_ended_ends_the_command_quietly(table: Table) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lakelog.cli", "table", "cat", table.path]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120, env=buffered)

    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_without_kafkas_client_files_are_read_and_logs_say_what_to_install(table: Table, tmp_path: Path) -> None:
    program = """
import sys
sys.modules["confluent_kafka"] = None  # as if it were not installed
from lakelog.cli.main import main
for command in sys.argv[1:]:
    try:
        main(command.split("|"))
    except SystemExit as ended:
        print("exit", ended.code)
"""
    create = "table|create|db.u|-c|id INT|--primary-keys|id|-o|log.system=kafka"

    ended = subprocess.run(
        [sys.executable, "-c", program, f"table|cat|{table.path}", "broker|start", create],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    message = "lakelog: logs need Kafka's client, and confluent_kafka is not installed; pip install 'lakelog[all]'\n"
    assert ended.stdout.splitlines()[-3:] == ["exit 0", "exit 1", "exit 1"]
    assert ended.stderr == message * 2


def test_a_change_log_table_is_made_and_shown_without_its_counts(run: Run) -> None:
    options = ("-o", "write-mode=change-log", "-o", "bucket=2")
    code, path, err = run("table", "create", "db.seen", "-c", "page STRING", "-c", "n INT", *options, "-w", "lake")
    assert (code, err) == (0, "")
    table = Catalog("lake").load_table("db.seen")
    rows = pa.table({"page": ["a", "a", None], "n": pa.array([1, 1, None], pa.int32())})
    table.write(rows)
    table.write(rows.slice(1), row_kinds=pa.array([3, 3], pa.int8()))

    assert rows_of(run("table", "cat", path.strip())[1]) == [{"n": 1, "page": "a"}]
    assert rows_of(run("table", "cat", path.strip(), "--changes")[1]) == rows_of(
        '{"_row_kind": "+I", "page": "a", "n": 1}\n' * 2
        + '{"_row_kind": "-D", "page": "a", "n": 1}\n'
        + "".join(f'{{"_row_kind": "{kind}", "page": null, "n": null}}\n' for kind in ("+I", "-D"))
    )
    shown = json.loads(run("table", "schema", path.strip())[1])
    assert [field["name"] for field in shown["fields"]] == ["page", "n"]
    assert (shown["primaryKeys"], "merge-engine" in shown["options"]) == ([], False)


def test_tables_are_renamed_and_databases_dropped(run: Run, table: Table) -> None:
    assert run("table", "rename", "db.t", "other.u", "-w", "lake")[1].strip().endswith("lake/other.db/u")
    assert run("database", "list", "-w", "lake")[1] == "db\nother\n"
    code, _, err = run("database", "drop", "other", "--yes", "-w", "lake")
    assert code == 1
    assert "holds the tables u; drop them first, or give cascade" in err
    assert run("database", "drop", "other", "--cascade", "--yes", "-w", "lake")[0] == 0
    assert not Path(table.warehouse, "other.db").exists()
    assert run("database", "drop", "other", "--if-exists", "--yes", "-w", "lake")[0] == 0


def test_without_its_packages_the_command_prints_the_line_that_installs_them() -> None:
    program = """
import importlib.machinery as machinery
import sys

find = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = lambda name, *rest: None if name in ("typer", "rich") else find(name, *rest)
sys.argv = ["lakelog", "table", "list"]
from lakelog.cli.entry import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "lakelog: the command line needs typer and rich, not installed; pip install 'lakelog[cli]'\n"
    )
