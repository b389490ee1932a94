"""`lakelog table`: the commands of tables, and those that create, list and drop them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse, key_value
from lakelog.cli.console.door import ask, print_lines
from lakelog.cli.console.helps import no_command, only_named
from lakelog.cli.console.output import say, to_json
from lakelog.cli.console.verb_commands import add_verbs
from lakelog.cli.tables import describe, follow, history, show, system_tables
from lakelog.cli.tables.alter import alter
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.common.types import DataField

Identifier = Annotated[str, typer.Argument(metavar="DATABASE.TABLE", help="The table's name.")]
Columns = Annotated[list[str], typer.Option("--column", "-c", help="A column, such as 'id BIGINT NOT NULL'; repeat.")]
Keys = Annotated[str, typer.Option(help="Columns of the primary key, with commas.")]
Partitions = Annotated[str, typer.Option(help="Partition columns, with commas.")]
Options = Annotated[list[str] | None, typer.Option("--option", "-o", help="KEY=VALUE; repeat.")]


def list_tables(
    database: Annotated[str | None, typer.Argument(help="Only this database.")] = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print the names of the tables."""
    from lakelog.catalog import Catalog

    catalog = Catalog(warehouse)
    for name in [database] if database else catalog.list_databases():
        tables = catalog.list_tables(name)
        print_lines(to_json({"database": name, "table": one}) if as_json else f"{name}.{one}" for one in tables)


def create(  # noqa: PLR0917  # typer's arguments are the command line's
    identifier: Identifier,
    column: Columns,
    primary_keys: Keys = "",
    partition_keys: Partitions = "",
    option: Options = None,
    comment: Annotated[str | None, typer.Option(help="What the table holds.")] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing table is fine.")] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Create a table and print its folder."""
    from lakelog.catalog import Catalog
    from lakelog.common.options import parse_names

    made = Catalog(warehouse).create_table(
        identifier,
        schema=[_column(text) for text in column],
        primary_keys=parse_names(primary_keys),
        partition_keys=parse_names(partition_keys),
        options=dict(key_value(text) for text in option or ()),
        comment=comment,
        if_not_exists=if_not_exists,
    )
    say(as_json, made.path, name=made.name, path=made.path)


def drop(  # noqa: PLR0917  # likewise
    identifier: Identifier,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing table is fine.")] = False,
    keep_topic: Annotated[bool, typer.Option("--keep-topic", help="Leave the topic of its log in Kafka.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,  # noqa: ARG001  # prints only errors
    warehouse: Warehouse = HERE,
) -> None:
    """Delete a table, its files and its topic."""
    from lakelog.catalog import Catalog

    catalog = Catalog(warehouse)
    if not yes:
        ask(f"Delete {identifier} in {catalog.warehouse} for good?")
    catalog.drop_table(identifier, if_exists=if_exists, keep_topic=keep_topic)


def rename(
    identifier: Identifier,
    new_identifier: Annotated[str, typer.Argument(metavar="NEW_DATABASE.NEW_TABLE", help="Its new name.")],
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Give a table another name, unless in an object store."""
    from lakelog.catalog import Catalog

    renamed = Catalog(warehouse).rename_table(identifier, new_identifier)
    say(as_json, renamed.path, name=renamed.name, path=renamed.path)


def _column(text: str) -> DataField:
    """A column given as DDL, so that its type means the same; a name with special characters needs no backticks."""
    from lakelog.catalog.columns.ddl import parse_ddl
    from lakelog.catalog.columns.written_ddl import quoted_name

    name, _, kind = text.strip().partition(" ")
    if not kind:
        raise InvalidRequestError(f"column {text!r} has no type; expected a form such as 'id BIGINT NOT NULL'")
    fields = parse_ddl(text if name.startswith("`") else f"{quoted_name(name)} {kind}")
    if len(fields) != 1:
        raise InvalidRequestError(f"--column {text!r} is {len(fields)} columns; give --column for each")
    return fields[0]


# The headings of `lakelog table --help`, in its order, with the commands that no verb declares.
_WRITTEN: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Look at tables": {
        "list": list_tables,
        "describe": describe.describe,
        "schema": show.schema,
        "cat": show.cat,
        "show": system_tables.show,
        "follow": follow.follow,
    },
    "Create and change tables": {"create": create, "alter": alter, "rename": rename, "drop": drop},
    "History": {"history": history.history, "diff": history.diff},
}
_GROUPS = {
    "tag": "Tags: snapshots with a name, which do not expire.",
    "branch": "Branches: lines of snapshots beside the table.",
    "consumer": "Consumers: readers until which snapshots do not expire.",
}


def table_app(words: Sequence[str] | None) -> typer.Typer:
    """The commands of tables: those that `words` name, and of the others the names; all of them without words."""
    app = typer.Typer(no_args_is_help=True)
    for panel, commands in _WRITTEN.items():
        for command, run in commands.items():
            is_asked = words is None or [*words[:1]] == [command]
            text = None if is_asked else (run.__doc__ or "").partition("\n")[0]
            app.command(command, help=text, rich_help_panel=panel)(run if is_asked else no_command)
    add_verbs(app, "table", words)
    for group, text in _GROUPS.items():
        is_asked = words is None or [*words[:1]] == [group]
        inner = typer.Typer(no_args_is_help=True) if is_asked else only_named()
        if is_asked:
            add_verbs(inner, f"table {group}", None if words is None else words[1:])
        app.add_typer(inner, name=group, help=text, rich_help_panel="Upkeep" if group == "consumer" else "History")
    return app
