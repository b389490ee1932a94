"""The examples in the docstrings: each verb of a catalog and of a table has one, and each one runs as it stands."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from scripts.api_page import INTERNAL_MEMBERS, members_of, split_example

from lakelog.catalog import AddColumn, Catalog, SetOption, Table, open_table
from lakelog.catalog.verbs.declared import table_groups

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False), ("amount", pa.int64())]
)
LOGGED = {"log.system": "kafka"}
# What the table of an example has before it, where that is not what the others have.
OPTIONS = {f"Table.log_store.{name}": LOGGED for name in ("tail", "verify", "open_transactions", "end_transactions")}
OPTIONS |= {f"Table.log_store.{name}": LOGGED for name in ("remove", "renew", "drop_ended", "settle")}
WITHOUT = "Table.log_store.abandon_writer"  # it needs a batch that a dead writer has left in part


def verbs() -> Iterator[tuple[str, Callable[..., object]]]:
    """The public methods of a catalog, of a table and of its groups, by their names."""
    groups = {f"Table.{name}": kind for name, kind in table_groups().items()}
    for owner, kind in {"Catalog": Catalog, "Table": Table, **groups}.items():
        for name, member in members_of(kind):
            if inspect.isfunction(member) and f"{owner}.{name}" not in INTERNAL_MEMBERS:
                yield f"{owner}.{name}", member


VERBS = dict(verbs())


def rows(*ids: int, day: str = "2026-01-31") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids), "amount": [10 * one for one in ids]}, schema=SCHEMA)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_an_example_that_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    example = split_example(inspect.getdoc(VERBS[name]) or "")[1]
    assert example, f"{name} has no example at the end of its docstring"
    if name == WITHOUT:
        compile(example, name, "exec")
        return
    is_logged = name.startswith("Table.log_store.")
    servers = request.getfixturevalue("bootstrap_servers") if is_logged else None
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=servers)
    table = catalog.create_table(
        "db.orders",
        schema=SCHEMA,
        primary_keys=["id", "day"],
        partition_keys="day",
        options={"bucket": "2"} | OPTIONS.get(name, {}),
    )
    table.write(rows(1, 2, day="2026-01-30"))
    table.write(rows(2, 3))
    table.tags.create("friday")
    table.branches.create("trial")
    table.branch("trial").write(rows(8))
    table.write(rows(4))
    table.consumers.reset("nightly", 2)
    copy = shutil.copytree(table.path, tmp_path / "copy")
    known = {"catalog": catalog, "table": table, "rows": rows(5), "folder_of_a_copy": copy, "pl": pl}
    known |= {"AddColumn": AddColumn, "SetOption": SetOption, "open_table": open_table}

    exec(compile(example, name, "exec"), known)  # an example of ours
