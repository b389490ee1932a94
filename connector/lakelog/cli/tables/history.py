"""`lakelog table history|diff`: the history of a table, and how two states of it differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import Node, Piece, print_tree, progress, to_json
from lakelog.cli.console.rows import Form, print_answer
from lakelog.common.timestamps import utc_of

if TYPE_CHECKING:
    from lakelog.filestore.system import History, HistoryEntry, HistoryLine, TableDiff

_CELL_MAX = 40
_MAIN = "main"


def history(
    table: TableName,
    limit: Annotated[int, typer.Option(min=1, help="Snapshots of each branch; tagged ones are always there.")] = 20,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print snapshots, tags and branches as a tree.

    The newest snapshot comes first; a branch is shown where it began.
    """
    found = find_table(table, warehouse, branch=branch)
    lines = found.history(limit=limit)
    if as_json:
        print_lines(to_json(_fields(line, entry)) for line in lines for entry in line.entries)
        return
    print_tree(_tree(found.name, lines))


def diff(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    from_: Annotated[str, typer.Option("--from", help="A tag, a snapshot, branch.tag, a branch, or a time.")],
    to: Annotated[str | None, typer.Option("--to", help="The same; the newest snapshot without it.")] = None,
    columns: Annotated[str | None, typer.Option(help="Compare only these columns, with commas.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Print so many rows of each kind.")] = 5,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print the rows in which two states differ.

    They are counted as added, changed (by column) and removed, and some of them are shown.
    """
    from lakelog.common.options import parse_names

    found = find_table(table, warehouse)
    names = None if columns is None else parse_names(columns)
    with progress(f"comparing {found.name}"):
        difference = found.diff(from_, to, columns=names, sample=sample)
    if as_json:
        print_lines([to_json(_summary(difference))])
        return
    print_lines(_summary_lines(difference))
    print_answer([], {"rows": _sample(difference)}, Form.GRID, is_list=True, cell_max=_CELL_MAX)


def _summary(found: TableDiff) -> dict[str, object]:
    states = {"from": found.before, "to": found.after}
    named = {
        key: {"snapshot_id": None if one.snapshot is None else one.snapshot.id, "branch": one.table.branch}
        for key, one in states.items()
    }
    counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
    return {**named, **counts, "changed_columns": dict(found.changed_columns), "sample": _sample(found)}


def _summary_lines(found: TableDiff) -> Iterator[str]:
    yield f"{found.name}: {found.before.text} to {found.after.text}"
    yield f"  added    {found.added}"
    columns = ", ".join(f"{name} {count}" for name, count in found.changed_columns.items())
    yield f"  changed  {found.changed}{f'   by column: {columns}' if columns else ''}"
    yield f"  removed  {found.removed}"


def _sample(found: TableDiff) -> list[dict[str, object]]:
    from lakelog.common.types import ROW_KIND_COLUMN, DataField, parse_type
    from lakelog.filestore.read import to_json_lines

    kind = DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING NOT NULL"))
    return [json.loads(line) for line in to_json_lines(found.sample, [kind, *found.fields])]


def _tree(name: str, history: History) -> Node:
    """The main branch as a list, each branch below the snapshot where it began; others at the end."""
    root = Node([name], style="bold")
    lines = {line.name: line for line in history}
    shown: set[str] = set()
    for line in history:
        if line.name == _MAIN:
            _add_line(root.add(_MAIN, style="bold cyan"), line, lines, shown)
    for line in history:
        if line.name not in shown and line.name != _MAIN:
            _add_branch(root, line, lines, shown)
    return root


def _add_branch(tree: Node, line: HistoryLine, lines: dict[str, HistoryLine], shown: set[str]) -> None:
    shown.add(line.name)
    began = "" if line.began_at is None else f", from snapshot {line.began_at}"
    empty = "" if line.entries else "  no snapshot of its own"
    node = tree.add((f"branch {line.name}", "bold cyan"), f"{began}{empty}")
    _add_line(node, line, lines, shown)


def _add_line(tree: Node, line: HistoryLine, lines: dict[str, HistoryLine], shown: set[str]) -> None:
    for entry in line.entries:
        node = tree.put(_node(entry))
        for name in entry.branches:
            if name in lines and name not in shown:
                _add_branch(node, lines[name], lines, shown)
    if line.left_out:
        tree.add(f"{line.left_out} older snapshots; --limit shows more", style="dim")


def _node(entry: HistoryEntry) -> Node:
    one = entry.snapshot
    pieces: list[Piece] = [
        (f"{one.id:>4}", "bold"),
        f"  {utc_of(one.time_millis)}  {(entry.operation or one.commit_kind.value).lower():<12}",
        f"  {one.delta_record_count:+,} rows in files, {one.total_record_count:,} in all",
    ]
    if one.batch is not None:
        pieces.append((f"  batch {one.batch} of {one.commit_user}", "dim"))
    pieces += [(f"  tag {tag}", "bold yellow") for tag in entry.tags]
    if not entry.is_living:
        pieces.append(("  expired", "dim"))
    return Node(pieces, style="" if entry.is_living else "dim")


def _fields(line: HistoryLine, entry: HistoryEntry) -> dict[str, object]:
    one = entry.snapshot
    return {
        "branch": line.name,
        "snapshot_id": one.id,
        "time": utc_of(one.time_millis),
        "time_millis": one.time_millis,
        "kind": one.commit_kind.value,
        "operation": entry.operation,
        "delta_record_count": one.delta_record_count,
        "total_record_count": one.total_record_count,
        "user": one.commit_user,
        "identifier": one.commit_identifier,
        "tags": entry.tags,
        "branches": entry.branches,
        "is_living": entry.is_living,
        "began_at": line.began_at,
    }
