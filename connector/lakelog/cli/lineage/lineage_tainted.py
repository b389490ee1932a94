"""`lakelog lineage tainted`: what a wrong snapshot has reached, and the commands that repair it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import naming_unreadable, print_grid, progress, to_json

if TYPE_CHECKING:
    from lakelog.lineage import Tainted, TaintedFields

_OTHER_WAY = "# where a table holds no wrong rows any more for another reason, `lakelog lineage mended` says so"


def tainted(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: Annotated[int, typer.Option("--snapshot-id", min=1, help="The wrong snapshot.")],
    column: Annotated[str | None, typer.Option("--column", help="Only this column is wrong: print columns.")] = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print what a wrong snapshot has reached.

    One row per table, or with --column per column; then the commands that restore the tables with wrong rows, sources
    first. Nothing is changed.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import tainted as find_tainted
    from lakelog.lineage import tainted_fields

    asked = find_table(table, warehouse, branch=branch)
    with naming_unreadable(as_json=as_json):
        if column is not None:
            with progress("reading snapshots"):
                columns = tainted_fields(Catalog(asked.warehouse), asked.name, column, snapshot_id)
            _print_columns(columns, as_json)
            return
        with progress("reading snapshots"):
            found = find_tainted(Catalog(asked.warehouse), asked.name, snapshot_id)
        _print(found, as_json)


def mended(  # noqa: PLR0917  # options of a command
    table: TableName,
    of: Annotated[list[str], typer.Option("--of", help="A wrong snapshot, such as db.orders@3; may be repeated.")],
    by: Annotated[str | None, typer.Option("--by", help="Who says it, by default the user of this process.")] = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Record that the wrong rows of a table are mended.

    For tables whose wrong rows were deleted or updated one by one: `lineage tainted` then counts them as mended. The
    record is a snapshot of its own, with the user and the time.
    """
    from lakelog.lineage import mended as record_mended

    snapshot = record_mended(find_table(table, warehouse, branch=branch), *of, by=by)
    found = {"table": table, "snapshot": snapshot.id, "of": of}
    print_lines(
        [to_json(found) if as_json else f"snapshot {snapshot.id} says that {table} holds no rows of {', '.join(of)}"]
    )


def _print_columns(found: TaintedFields, as_json: bool) -> None:
    rows = found.fields.to_pylist()
    reached = {(row["uuid"], row["branch"]) for row in rows}
    tables = [row for row in found.tables.tables.to_pylist() if (row["uuid"], row["branch"]) in reached]
    commands = [row["command"] for row in tables if row["command"] is not None]
    if as_json:
        print_lines([to_json({"fields": rows, "commands": commands})])
        return
    cells = [
        [
            row["table"],
            row["field"],
            str(row["first_tainted"]),
            "" if row["last_clean"] is None else str(row["last_clean"]),
            "yes" if row["holds_tainted_rows"] else "no",
            ", ".join(row["jobs"]),
            "" if row["known"] else "maybe: a batch without lineage of fields has read it",
        ]
        for row in rows
    ]
    headings = ["table", "column", "wrong since", "last clean", "holds wrong rows", "jobs", "note"]
    print_grid(headings, cells, right=["wrong since", "last clean"])
    if commands:
        print_lines(["", *commands, "", _OTHER_WAY])


def _print(found: Tainted, as_json: bool) -> None:
    tables, snapshots = found.tables.to_pylist(), found.snapshots.to_pylist()
    if as_json:
        print_lines([to_json({"tables": tables, "snapshots": snapshots, "commands": found.commands})])
        return
    wrong: dict[tuple[str, str | None], list[str]] = {}
    for row in snapshots:
        wrong.setdefault((row["uuid"], row["branch"]), []).append(str(row["snapshot_id"]))
    rows = [
        [
            row["table"],
            ", ".join(wrong.get((row["uuid"], row["branch"]), [])),
            "" if row["last_clean"] is None else str(row["last_clean"]),
            "yes" if row["holds_tainted_rows"] else "no",
            row["why"] or "",
        ]
        for row in tables
    ]
    print_grid(["table", "wrong snapshots", "last clean", "holds wrong rows", "note"], rows, right=["last clean"])
    if found.commands:
        print_lines(["", *found.commands, "", _OTHER_WAY])
