"""`lakelog broker`: start, stop and look at the embedded broker of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.arguments import HERE, WAREHOUSE_KEY
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.io.path_forms import is_local, user_path
from lakelog.protocol.servers import require_kafka_client

if TYPE_CHECKING:
    from lakelog.logstore.broker.broker import BrokerInfo, EmbeddedBroker

app = typer.Typer(no_args_is_help=True)

Folder = Annotated[str, typer.Argument(envvar=WAREHOUSE_KEY, help="The warehouse folder.")]


@app.command()
def start(
    folder: Folder = HERE,
    port: Annotated[int | None, typer.Option(help="The port; by default that of the last time.")] = None,
) -> None:
    """Start the broker, unless it runs, and print where it serves."""
    _show(_broker_of(folder).start(port=port))


@app.command()
def stop(folder: Folder = HERE) -> None:
    """Stop the broker; its data stays."""
    was_running = _broker_of(folder).stop()
    typer.echo("stopped" if was_running else f"no broker runs in {user_path(folder)}")


@app.command()
def status(folder: Folder = HERE) -> None:
    """Say whether the broker runs, and where; exit code 3 when it does not."""
    info = _broker_of(folder).status()
    if info is None:
        typer.echo(f"no broker runs in {user_path(folder)}")
        raise typer.Exit(3)
    _show(info)


def _broker_of(folder: str) -> EmbeddedBroker:
    folder = user_path(folder)
    if not is_local(folder):
        raise InvalidRequestError(f"{folder} is not on this machine: a broker has a local folder; name one")
    require_kafka_client()
    from lakelog.logstore.broker.broker import EmbeddedBroker  # needs the extra

    return EmbeddedBroker(Path(folder))


def _show(info: BrokerInfo) -> None:
    typer.echo(f"{info.bootstrap_servers}  pid {info.pid}  log {info.log_path}")
