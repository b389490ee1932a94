"""`lakelog broker`: start, stop and show the embedded broker of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, WAREHOUSE_KEY, AsJson
from lakelog.cli.console.output import say
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.logstore.broker.broker import BrokerInfo, EmbeddedBroker

app = typer.Typer(no_args_is_help=True)

NOT_RUNNING_CODE = 3
Folder = Annotated[str, typer.Argument(envvar=WAREHOUSE_KEY, help="The warehouse folder.")]


@app.command()
def start(
    folder: Folder = HERE,
    port: Annotated[int | None, typer.Option(help="The port; by default that of the last start.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start the broker, unless it runs; print its address."""
    _show(_broker_of(folder).start(port=port), as_json=as_json)


@app.command()
def stop(folder: Folder = HERE, as_json: AsJson = False) -> None:
    """Stop the broker; its data stays."""
    broker = _broker_of(folder)
    was_running = broker.stop()
    say(as_json, "stopped" if was_running else f"no broker runs in {broker.folder}", was_running=was_running)


@app.command()
def status(folder: Folder = HERE, as_json: AsJson = False) -> None:
    """Print whether the broker runs, and where.

    Exit code 3 when it does not.
    """
    broker = _broker_of(folder)
    info = broker.status()
    if info is None:
        say(as_json, f"no broker runs in {broker.folder}", bootstrap_servers=None)
        raise typer.Exit(NOT_RUNNING_CODE)
    _show(info, as_json=as_json)


def _broker_of(folder: str) -> EmbeddedBroker:
    from lakelog.filestore.io import is_local, user_path
    from lakelog.protocol.access import require_kafka_client

    folder = user_path(folder)
    if not is_local(folder):
        raise InvalidRequestError(f"{folder} is not on this machine: a broker needs a local folder; name one")
    require_kafka_client()
    from lakelog.logstore.broker.broker import EmbeddedBroker

    return EmbeddedBroker(Path(folder))


def _show(info: BrokerInfo, *, as_json: bool) -> None:
    say(
        as_json,
        f"{info.bootstrap_servers}  pid {info.pid}  log {info.log_path}",
        bootstrap_servers=info.bootstrap_servers,
        pid=info.pid,
        log_path=str(info.log_path),
    )
