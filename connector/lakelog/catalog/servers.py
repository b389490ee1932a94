"""Which Kafka a table's log is in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lakelog.logstore.broker import ensure_running
from lakelog.logstore.options import BOOTSTRAP_SERVERS, client_config

BOOTSTRAP_KEY = "LAKELOG_KAFKA_BOOTSTRAP_SERVERS"
_SERVERS_OF_CLIENTS = "bootstrap.servers"


def client_config_of(
    options: Mapping[str, str], warehouse: Path, *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The Kafka client configuration of a table with these options.

    Its servers are those of the option, else of the environment variable, else the embedded broker of the warehouse,
    which is started when it does not run. Raises UnavailableError when it does not start.
    """
    config = client_config(options)
    named = BOOTSTRAP_SERVERS.of(options) or (os.environ if environ is None else environ).get(BOOTSTRAP_KEY)
    config[_SERVERS_OF_CLIENTS] = named or ensure_running(warehouse).bootstrap_servers
    return config
