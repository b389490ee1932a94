"""`lakelog table`: create, list, look at, alter and drop tables."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from lakelog.catalog import Catalog
from lakelog.cli import upkeep
from lakelog.cli.alter import alter
from lakelog.cli.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_COLUMN, DataField, parse_type
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.options.parsing import parse_names
from lakelog.filestore.read.json_rows import to_json_lines
from lakelog.filestore.schema.paths import MAIN_BRANCH

app = typer.Typer(no_args_is_help=True)
app.command()(alter)
app.command()(upkeep.compact)
app.command()(upkeep.expire)
app.command()(upkeep.rescale)
app.command("new-identity")(upkeep.new_identity)
app.command("drop-partitions")(upkeep.drop_partitions)
app.command("remove-orphan-files")(upkeep.remove_orphan_files)
app.command()(upkeep.consumers)
app.command("reset-consumer")(upkeep.reset_consumer)
app.command("delete-consumer")(upkeep.delete_consumer)
app.command("find-commit")(upkeep.find_commit)

_KIND = DataField(id=-1, name=ROW_KIND_COLUMN, type=parse_type("STRING NOT NULL"))
Columns = Annotated[list[str], typer.Option("--column", "-c", help="A column, such as 'id BIGINT NOT NULL'; repeat.")]
Keys = Annotated[str, typer.Option(help="Columns of the primary key, with commas.")]
Partitions = Annotated[str, typer.Option(help="Partition columns, with commas.")]
Options = Annotated[list[str] | None, typer.Option("--option", "-o", help="KEY=VALUE; repeat.")]


@app.command()
def cat(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: Annotated[int | None, typer.Option(help="Read this snapshot.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="Read the table as it was at this time; UTC without a zone.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Read the snapshot that this tag keeps.")] = None,
    branch: Annotated[str, typer.Option(help="Read this branch.")] = MAIN_BRANCH,
    changes: Annotated[bool, typer.Option("--changes", help="Print changes instead of rows, with _row_kind.")] = False,
    after: Annotated[int | None, typer.Option("--from", help="With --changes: the snapshot before the first.")] = None,
    up_to: Annotated[int | None, typer.Option("--to", help="With --changes: the last snapshot.")] = None,
    columns: Annotated[str | None, typer.Option(help="Only these columns, with commas.")] = None,
    where: Annotated[str | None, typer.Option(help="Only rows that meet this SQL condition.")] = None,
    warehouse: Warehouse = HERE,
) -> None:
    """Print the rows as JSON lines, in no particular order; or with --changes what snapshots changed, in order."""
    if sum(given is not None for given in (snapshot_id, timestamp, tag)) > 1:
        raise InvalidRequestError("--snapshot-id, --timestamp and --tag name several states of the table; give one")
    found = find_table(table, warehouse, branch=branch)
    names = parse_names(columns) if columns is not None else None
    if changes:
        if where is not None or any(given is not None for given in (snapshot_id, timestamp, tag)):
            raise InvalidRequestError("--changes goes with --from, --to and --columns alone")
        batches = found.changes(after=after, up_to=up_to, columns=names)
    else:
        if after is not None or up_to is not None:
            raise InvalidRequestError("--from and --to go with --changes")
        batches = found.to_batches(
            columns=names,
            where=where,
            snapshot_id=snapshot_id,
            timestamp=timestamp,
            tag=tag,
        )
    for batch in batches:
        fields = [_KIND if name == ROW_KIND_COLUMN else found.schema.field(name) for name in batch.schema.names]
        sys.stdout.writelines(f"{line}\n" for line in to_json_lines(batch, fields))


@app.command("list")
def list_tables(
    database: Annotated[str | None, typer.Argument(help="Only this database.")] = None, warehouse: Warehouse = HERE
) -> None:
    """Print the names of the tables."""
    catalog = Catalog(warehouse)
    for name in [database] if database else catalog.list_databases():
        for table in catalog.list_tables(name):
            typer.echo(f"{name}.{table}")


@app.command()
def create(  # noqa: PLR0917  # likewise
    identifier: Annotated[str, typer.Argument(metavar="DATABASE.TABLE")],
    column: Columns,
    primary_key: Keys = "",
    partition_by: Partitions = "",
    option: Options = None,
    comment: Annotated[str | None, typer.Option(help="What the table holds.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing table is fine.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Create a table."""
    made = Catalog(warehouse).create_table(
        identifier,
        schema=[_column(text) for text in column],
        primary_keys=parse_names(primary_key),
        partition_keys=parse_names(partition_by),
        options=dict(_option(text) for text in option or ()),
        comment=comment,
        if_not_exists=if_not_exists,
    )
    typer.echo(made.path)


@app.command()
def drop(
    identifier: Annotated[str, typer.Argument(metavar="DATABASE.TABLE")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing table is fine.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a table, its files and its topic."""
    catalog = Catalog(warehouse)
    if not yes:
        typer.confirm(f"Delete {identifier} in {catalog.warehouse} for good?", abort=True)
    catalog.drop_table(identifier, if_exists=if_exists)


@app.command()
def rename(
    identifier: Annotated[str, typer.Argument(metavar="DATABASE.TABLE")],
    new_identifier: Annotated[str, typer.Argument(metavar="NEW_DATABASE.NEW_TABLE")],
    warehouse: Warehouse = HERE,
) -> None:
    """Give a table another name. Not in an object store."""
    typer.echo(Catalog(warehouse).rename_table(identifier, new_identifier).path)


@app.command()
def snapshots(table: TableName, as_json: AsJson = False, warehouse: Warehouse = HERE) -> None:
    """Print the snapshots, oldest first."""
    rows = [_snapshot_row(snapshot) for snapshot in find_table(table, warehouse).snapshots()]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    grid = Grid("id", "kind", "time (UTC)", "rows in files", "user", "identifier", box=None)
    for row in rows:
        grid.add_row(*(str(row[key]) for key in ("id", "kind", "time", "total_record_count", "user", "identifier")))
    Console(width=None if sys.stdout.isatty() else 160).print(grid)


@app.command()
def schema(table: TableName, warehouse: Warehouse = HERE) -> None:
    """Print the schema as JSON: as the schema file has it, but that the files of change-log tables count rows."""
    typer.echo(find_table(table, warehouse).schema.to_json())


def _snapshot_row(snapshot: Snapshot) -> dict[str, object]:
    time = datetime.fromtimestamp(snapshot.time_millis / 1000, UTC)
    return {
        "id": snapshot.id,
        "schema_id": snapshot.schema_id,
        "kind": snapshot.commit_kind.value,
        "time": time.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00"),
        "time_millis": snapshot.time_millis,
        "total_record_count": snapshot.total_record_count,
        "delta_record_count": snapshot.delta_record_count,
        "user": snapshot.commit_user,
        "identifier": snapshot.commit_identifier,
    }


def _column(text: str) -> DataField:
    name, _, kind = text.strip().partition(" ")
    if not kind:
        raise InvalidRequestError(f"column {text!r} has no type; expected a form such as 'id BIGINT NOT NULL'")
    return DataField(id=0, name=name, type=parse_type(kind))


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequestError(f"option {text!r} has no value; expected KEY=VALUE")
    return key.strip(), value.strip()
