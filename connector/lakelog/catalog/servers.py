"""Which Kafka a table's log is in."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.path_forms import is_local
from lakelog.logstore.options import BOOTSTRAP_SERVERS, client_config

BOOTSTRAP_KEY = "LAKELOG_KAFKA_BOOTSTRAP_SERVERS"
_SERVERS_OF_CLIENTS = "bootstrap.servers"


def client_config_of(
    options: Mapping[str, str], warehouse: str, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The Kafka client configuration of a table with these options.

    Its servers are those of the option, else of the environment variable, else the embedded broker of the warehouse,
    which is started when it does not run. Raises UnavailableError when it does not start, and InvalidRequestError for
    a warehouse in an object store, which has none.
    """
    config = client_config(options)
    named = BOOTSTRAP_SERVERS.of(options) or (os.environ if environ is None else environ).get(BOOTSTRAP_KEY)
    config[_SERVERS_OF_CLIENTS] = named or _embedded(warehouse)
    return config


def require_kafka_client() -> None:
    """Raise InvalidRequestError where Kafka's client, an extra of lakelog, is not installed."""
    try:
        importlib.import_module("lakelog.logstore.topic")
    except ModuleNotFoundError as error:
        raise InvalidRequestError(
            f"logs need Kafka's client, and {error.name} is not installed; pip install 'lakelog[all]'"
        ) from error


def _embedded(warehouse: str) -> str:
    if not is_local(warehouse):
        raise InvalidRequestError(
            f"a log needs a Kafka, and the warehouse {warehouse} has no broker of its own, as local ones have: name "
            f"the servers in {BOOTSTRAP_KEY}, in Catalog(warehouse, bootstrap_servers), or in the table's option "
            f"{BOOTSTRAP_SERVERS.key}"
        )
    require_kafka_client()
    from lakelog.logstore.broker import ensure_running  # noqa: PLC0415  # needs the extra

    return ensure_running(Path(warehouse)).bootstrap_servers
