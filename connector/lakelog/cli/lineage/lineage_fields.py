"""`lakelog lineage fields|impact`: what fields are made from, and what breaks if one goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any  # Any: values of rows

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import naming_unreadable, print_grid, to_json
from lakelog.cli.console.rows import Form, print_rows
from lakelog.cli.lineage.page_files import Html, Svg, check_no_svg, write_page
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog import Catalog

FieldName = Annotated[str, typer.Argument(metavar="FIELD", help="As database.table.column; a table for all columns.")]
Depth = Annotated[int | None, typer.Option("--depth", min=1, help="Go so many hops far; all without it.")]
Start = Annotated[str | None, typer.Option("--start", help="Of runs from this time on, such as 2026-01-31 or now-7d.")]
End = Annotated[str | None, typer.Option("--end", help="Of runs before this time.")]
Direct = Annotated[bool, typer.Option("--direct", help="Only what is in the value, without filters and the like.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]


def fields(  # noqa: PLR0917  # typer's arguments are the command line's
    field: FieldName,
    up: Annotated[bool, typer.Option("--up", help="Only what the field is made from.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what is made from the field.")] = False,
    depth: Depth = None,
    at: Annotated[str | None, typer.Option("--at", help="What made this snapshot, or this tag, of the table.")] = None,
    start: Start = None,
    end: End = None,
    direct: Direct = False,
    html: Html = None,
    svg: Svg = None,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print what a field is made from, and what from it.

    One row per edge and job, the nearest first. An edge to `*` counts for all fields of the table, such as a filter.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import field_index
    from lakelog.lineage.answers.catalog_fields import fields as ask
    from lakelog.lineage.answers.catalog_fields import split_name

    check_no_svg(svg)
    _check_one_form(as_csv, as_json)
    with naming_unreadable(as_json=as_json or as_csv):
        catalog = Catalog(warehouse)
        index = field_index(catalog)
        dataset, column = split_name(index, field)
        found = ask(
            catalog,
            dataset,
            column,
            direction="both" if up == down else "up" if up else "down",
            depth=depth,
            at=None if at is None else _snapshot_of(catalog, dataset, at),
            start=_time_of(start),
            end=_time_of(end),
            direct_only=direct,
            index=index,
        )
        if html is not None:
            write_page(found.to_html(), html)
        _print_edges(found.to_arrow(), as_csv=as_csv, as_json=as_json)
        if html is not None and not (as_csv or as_json):
            print_lines([f"wrote {html}"])


def impact(  # noqa: PLR0917  # typer's arguments are the command line's
    field: FieldName,
    depth: Depth = None,
    start: Start = None,
    end: End = None,
    direct: Direct = False,
    as_csv: AsCsv = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print what breaks if a field goes.

    One row per field that is made from it, or that it decides about, with the jobs that write it, the nearest first.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import field_index, impact
    from lakelog.lineage.answers.catalog_fields import split_name

    _check_one_form(as_csv, as_json)
    with naming_unreadable(as_json=as_json or as_csv):
        catalog = Catalog(warehouse)
        index = field_index(catalog)
        dataset, column = split_name(index, field)
        found = impact(
            catalog,
            dataset,
            column,
            depth=depth,
            start=_time_of(start),
            end=_time_of(end),
            direct_only=direct,
            index=index,
        )
        _print_impact(found, as_csv=as_csv, as_json=as_json)


def _check_one_form(as_csv: bool, as_json: bool) -> None:
    if as_csv and as_json:
        raise InvalidRequestError("--csv and --json are two forms of one answer; give one")


def _snapshot_of(catalog: Catalog, dataset: tuple[str, str], text: str) -> int:
    """The snapshot that a number or a tag names."""
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return catalog.store(".".join(dataset)).snapshots.tagged(text).id


def _time_of(text: str | None) -> str | int | None:
    """A timestamp, or the milliseconds of an expression such as now-7d."""
    if text is None or not text.startswith("now"):
        return text
    from lakelog.common.clock import system_millis
    from lakelog.lineage.page.time_expressions import seconds_of

    try:
        return seconds_of(text, system_millis() // 1_000) * 1_000
    except ValueError as error:
        raise InvalidRequestError(f"{error}; expected a timestamp, or now and steps, such as now-1d+4h") from error


def _rows_of_grid(found: pa.Table, *, as_csv: bool, as_json: bool) -> list[dict[str, Any]] | None:
    """The rows of an answer for a grid; None once they are printed in another form."""
    if as_csv:
        print_rows(found, Form.CSV)
        return None
    rows: list[dict[str, Any]] = found.to_pylist()
    if as_json:
        print_lines(map(to_json, rows))
        return None
    return rows


def _print_edges(edges: pa.Table, *, as_csv: bool, as_json: bool) -> None:
    rows = _rows_of_grid(edges, as_csv=as_csv, as_json=as_json)
    if rows is not None:
        print_grid(["", "depth", "from", "to", "how", "job", "snapshots", "note"], map(_cells, rows), right=["depth"])


def _cells(row: dict[str, Any]) -> list[str]:
    source = ".".join((row["source_namespace"], row["source_dataset"], row["source_field"]))
    target = ".".join((row["target_namespace"], row["target_dataset"], row["target_field"] or "*"))
    kinds = ", ".join(kind.lower().replace("_", " ") for kind in row["kinds"])
    notes = [name for name in ("masked", "opaque", "approximate") if row[name]]
    return [
        row["direction"],
        str(row["depth"]),
        source,
        target,
        kinds,
        row["job"] or row["operation"] or "",
        _snapshots(row["runs"]),
        ", ".join(notes),
    ]


def _snapshots(runs: list[dict[str, Any]]) -> str:
    """The first and the last snapshot of runs."""
    ids = [run[name] for run in runs for name in ("first_snapshot", "last_snapshot") if run[name] is not None]
    if not ids:
        return ""
    return str(min(ids)) if min(ids) == max(ids) else f"{min(ids)} to {max(ids)}"


def _print_impact(found: pa.Table, *, as_csv: bool, as_json: bool) -> None:
    rows = _rows_of_grid(found, as_csv=as_csv, as_json=as_json)
    if rows is None:
        return
    print_grid(
        ["depth", "field", "how", "jobs"],
        (
            [
                str(row["depth"]),
                ".".join((row["namespace"], row["dataset"], row["field"])),
                f"{row['type'].lower()}: {', '.join(kind.lower().replace('_', ' ') for kind in row['kinds'])}",
                ", ".join(row["jobs"]),
            ]
            for row in rows
        ),
        right=["depth"],
    )
