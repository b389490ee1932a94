"""What a shell shows, and what users of other libraries are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: guesses are of names that types do not have

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, DropColumn, InvalidRequestError, LakelogError, Table
from lakelog.cli.main import main

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys="id", options={"bucket": "1", "write-only": "true"}
    )
    for number in range(12):
        table.write(pa.table({"id": [number], "v": ["\x1b[2J"]}, schema=SCHEMA))
    return table


def test_snapshots_and_changes_show_themselves_and_give_all_items_afterwards(table: Table) -> None:
    snapshots = table.snapshots()
    assert repr(snapshots).startswith("12 snapshots of db.t")
    assert "Snapshot(id=12," in repr(snapshots)
    assert "Snapshot(id=2," not in repr(snapshots)
    assert [one.id for one in snapshots] == list(range(1, 13))
    changes = table.changes(after=0)
    assert "changes of db.t" in repr(changes)
    assert sum(batch.num_rows for batch in changes) == 12


def test_descriptions_findings_and_restores_show_a_line_each(table: Table) -> None:
    described = table.describe()
    assert repr(described).splitlines()[0] == "TableDescription"
    assert any(line.split() == ["snapshot_id", "12"] for line in repr(described).splitlines())
    assert "<td" in described._repr_html_()
    report = table.upkeep.doctor()
    assert len(repr(report).splitlines()) == 1 + len(report.findings)
    assert "<td" in report._repr_html_()
    restored = table.restore(snapshot_id=3)
    assert [line.split()[0] for line in repr(restored).splitlines()][:2] == ["Restored", "target"]
    assert "<td" in restored._repr_html_()


GUESSES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "upsert": (lambda _, t: t.upsert, r"write\(rows\) upserts"),
    "append": (lambda _, t: t.append, r"write\(rows\)"),
    "head": (lambda _, t: t.head, r"limit\(10\)"),
    "optimize": (lambda _, t: t.optimize, r"compact\(full=True\)"),
    "vacuum": (lambda _, t: t.vacuum, "expire_snapshots"),
    "limit=": (lambda _, t: t.to_arrow(limit=3), r"limit\(10\)"),
    "row_filter=": (lambda _, t: t.to_arrow(row_filter="x"), "where="),
    "catalog[]": (lambda c, _: c["db.t"], r"load_table\('db.t'\)"),
    "list_tables()": (lambda c, _: c.list_tables(), "has: db"),
    "list_namespaces": (lambda c, _: c.list_namespaces, r"list_databases\(\)"),
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_guess_is_answered_by_what_is_meant_here(catalog: Catalog, table: Table, name: str) -> None:
    guess, meant = GUESSES[name]
    with pytest.raises((AttributeError, TypeError, LakelogError), match=meant):
        guess(catalog, table)


def test_what_a_guess_names_exists(catalog: Catalog, table: Table) -> None:
    assert not hasattr(table, "no_such_name")
    table.upkeep.expire_snapshots()
    table.upkeep.remove_orphan_files()
    assert table.to_duckdb().limit(10).fetchall()
    assert table.to_polars().head(10).collect().height == 10
    assert catalog.list_databases() == ["db"]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["list"], "lakelog table list DATABASE"),
        (["history"], "lakelog table history TABLE"),
        (["sql", "SELECT 1"], "a statement follows -e"),
    ],
)
def test_the_command_line_answers_guesses(words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(words)
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-h"], ["table", "-h"], ["sql", "-h"]])
def test_help_is_shown_by_its_short_option(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(words)
    assert "Usage: lakelog" in capsys.readouterr().out


def test_a_list_of_no_jobs_says_why(catalog: Catalog, table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["lineage", "jobs", "-w", catalog.warehouse])
    assert "no batch names a job: statements of SQL" in capsys.readouterr().err


def test_an_option_that_no_user_has_set_is_not_named(catalog: Catalog) -> None:
    table = catalog.create_table("db.plain", schema="a BIGINT, b BIGINT, c BIGINT", options={"bucket": "1"})
    table.alter(DropColumn("a"))
    table.alter(DropColumn("b"))
    with pytest.raises(InvalidRequestError, match="the last one of those by which rows go to buckets") as error:
        table.alter(DropColumn("c"))
    assert "bucket-key" not in str(error.value)
