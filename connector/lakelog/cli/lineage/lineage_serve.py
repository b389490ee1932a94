"""`lakelog lineage serve`: the page of lineage, and its REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Warehouse
from lakelog.cli.console.output import progress, say
from lakelog.common.errors import InvalidRequestError

TOKEN_KEY = "LAKELOG_PAGE_TOKEN"


def serve(  # noqa: PLR0917  # typer's arguments are the command line's
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8700,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN_KEY, help="What requests have to show, in the header Authorization: Bearer."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="A host name by which others know this machine; may be repeated.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Keep the index in this file, not in memory.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Serve the page of lineage, and REST, until Ctrl-C.

    It only reads. The address is printed; /docs lists the paths for programs.
    """
    from lakelog.catalog import Catalog

    try:
        from lakelog.lineage.server.serving import Door
        from lakelog.lineage.server.serving import serve as serve_page
    except ImportError as error:
        raise InvalidRequestError("lakelog lineage serve needs starlette: pip install 'lakelog[page]'") from error

    def show(address: str) -> None:
        say(as_json, address, address=address)
        if open_:
            import webbrowser

            webbrowser.open(address if token is None else f"{address}#token={token}")

    door = Door(host=host, port=port, token=token, names=name or ())
    door.check()
    with progress("reading the lineage of fields"):
        catalog = Catalog(warehouse)
    serve_page([catalog], door, index=index, on_start=show)
