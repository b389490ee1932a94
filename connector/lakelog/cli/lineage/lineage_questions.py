"""`lakelog lineage upstream|downstream|consistent`: what snapshots were made from, and which are consistent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any  # Any: values of rows

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import naming_unreadable, print_grid, to_json
from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.timestamps import to_millis, utc_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog import Table
    from lakelog.lineage import ConsistentSnapshots

SnapshotOrNewest = Annotated[int | None, typer.Option("--snapshot-id", min=1, help="Of this one, not of the newest.")]
Depth = Annotated[int | None, typer.Option("--depth", min=1, help="Go so many tables far; all without it.")]


def upstream(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: SnapshotOrNewest = None,
    depth: Depth = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print what a snapshot was made from.

    One row per source: the batches that made the snapshot, then the batches that made what these read, and so on.
    """
    from lakelog.lineage import upstream as find

    _print_edges(find, find_table(table, warehouse, branch=branch), snapshot_id, depth, as_json=as_json)


def downstream(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: SnapshotOrNewest = None,
    depth: Depth = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print what was made from a snapshot.

    One row per source: the batches that read the snapshot, then the batches that read what these wrote, and so on.
    """
    from lakelog.lineage import downstream as find

    _print_edges(find, find_table(table, warehouse, branch=branch), snapshot_id, depth, as_json=as_json)


def consistent(
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="Tables as database.table.")],
    at: Annotated[
        list[str] | None, typer.Option("--at", help="As of this time; or db.source=12, a snapshot above them.")
    ] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print consistent snapshots of tables.

    They are the newest that were made from the same versions of all sources that the tables share, printed with these
    versions. If there are none, the error says why.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import consistent_snapshots

    with naming_unreadable(as_json=as_json):
        _print_consistent(consistent_snapshots(Catalog(warehouse), tables, at=_at(at or [])), as_json)


def _print_consistent(found: ConsistentSnapshots, as_json: bool) -> None:
    versions = {name: version.snapshot_id for name, version in found.versions.items()}
    if as_json:
        print_lines([to_json({"snapshots": dict(found), "versions": versions, "reasons": dict(found.reasons)})])
        return
    rows = [[name, str(snapshot), found.reasons.get(name, "")] for name, snapshot in found.items()]
    print_grid(["table", "snapshot", "not newer since"], rows, right=["snapshot"])
    if versions:
        print_lines([""])
        print_grid(["made from", "snapshot"], [[name, str(one)] for name, one in versions.items()], right=["snapshot"])


def _chosen(table: Table, snapshot: int | None) -> int:
    newest = table.store.snapshots.latest_id() if snapshot is None else snapshot
    if newest is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet")
    return newest


def _at(given: list[str]) -> str | dict[str, int] | None:
    """A time, or snapshots of tables by their names. Raises InvalidRequestError."""
    pairs = [one.partition("=") for one in given]
    if all(equals and number.isascii() and number.isdigit() for _, equals, number in pairs):
        return {name: int(number) for name, _, number in pairs} or None
    if len(given) == 1:
        return given[0]
    raise InvalidRequestError(f"--at takes one time, or snapshots as db.source=12; found {', '.join(given)}")


def _print_edges(
    find: Callable[..., pa.Table], table: Table, snapshot_id: int | None, depth: int | None, *, as_json: bool
) -> None:
    from lakelog.catalog import Catalog

    with naming_unreadable(as_json=as_json):
        edges = find(Catalog(table.warehouse), table.name, _chosen(table, snapshot_id), depth)
        rows: list[dict[str, Any]] = edges.to_pylist()
        if as_json:
            times = ({"sink_time": utc_of(to_millis(row["sink_time"]))} for row in rows)
            print_lines(to_json(row | time) for row, time in zip(rows, times, strict=True))
            return
        right = ["depth", "snapshot"]
        print_grid(["depth", "table", "snapshot", "job", "batch", "read", "of", "note"], map(_cells, rows), right=right)


def _cells(row: dict[str, Any]) -> list[str]:
    from lakelog.filestore.schema import line_name

    first, last = row["source_from"], row["source_to"]
    read = row["foreign_to"] or ("" if last is None else f"up to {last}" if first is None else f"{first + 1} to {last}")
    batch = row["operation"] if row["barrier_id"] is None else str(row["barrier_id"])
    sink = line_name(row["sink_table"], row["sink_branch"])
    source = line_name(row["source_table"] or row["source_kind"] or "", row["source_branch"])
    note = row["why"] or ("" if row["exact"] is not False else "and a part of what follows")
    return [str(row["depth"]), sink, str(row["sink_snapshot"]), row["job"] or "", batch or "", read, source, note]
