"""The Kafka of a table's log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.filestore.io import is_local
from lakelog.logstore.client_settings import SERVERS, check_servers, joined_settings
from lakelog.logstore.options import BOOTSTRAP_SERVERS, COMPRESSION, COMPRESSION_SETTING, PROFILE, client_config
from lakelog.protocol.access.kafka_profiles import BOOTSTRAP_KEY, user_settings


class BrokerStoppedError(UnavailableError):
    """The embedded broker of a warehouse does not run, and the caller does not start it."""


def client_config_of(
    options: Mapping[str, str],
    warehouse: str,
    *,
    given: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    starts_broker: bool = True,
) -> dict[str, str]:
    """The Kafka client configuration of a table with these options; `given` are settings that came with the call.

    The user's own settings override the table's, see `lakelog.protocol.access.kafka_profiles`. If neither names
    servers, those of the environment variable are used, else the embedded broker of the warehouse, started if it does
    not run. Raises UnavailableError when it does not start, BrokerStoppedError if it must not be started, and
    InvalidRequestError for a warehouse in an object store, which has no embedded broker; OptionError for servers that
    include a user.
    """
    environ = os.environ if environ is None else environ
    config = client_config(options)
    compression = COMPRESSION.of(options)
    if compression is not None:
        config.setdefault(COMPRESSION_SETTING, compression.value)
    config = joined_settings(config, user_settings(given or {}, named=PROFILE.of(options), environ=environ))
    config[SERVERS] = config.get(SERVERS) or environ.get(BOOTSTRAP_KEY) or _embedded(warehouse, starts=starts_broker)
    check_servers(config)
    return config


def require_kafka_client() -> None:
    """Raise InvalidRequestError if Kafka's client, an extra of lakelog, is not installed."""
    try:
        from lakelog.logstore.kafka.clients import topic  # noqa: F401, PLC0415  # it needs the extra
    except ModuleNotFoundError as error:
        raise InvalidRequestError(
            f"logs need Kafka's client, and {error.name} is not installed; pip install 'lakelog[all]'"
        ) from error


def _embedded(warehouse: str, starts: bool) -> str:  # of one caller
    if not is_local(warehouse):
        raise InvalidRequestError(
            f"a log needs Kafka, and the warehouse {warehouse} has no embedded broker, as local ones have: name "
            f"the servers in {BOOTSTRAP_KEY}, in Catalog(warehouse, bootstrap_servers), or in the table's option "
            f"{BOOTSTRAP_SERVERS.key}"
        )
    require_kafka_client()
    from lakelog.logstore.broker.broker import EmbeddedBroker  # noqa: PLC0415  # needs the extra

    if not starts:
        running = EmbeddedBroker(warehouse).status()
        if running is None:
            raise BrokerStoppedError(
                f"no Kafka servers are named, and the embedded broker of {warehouse} does not run: the first table with"
                f" a log starts it, or `lakelog broker start {warehouse}`"
            )
        return running.bootstrap_servers
    return EmbeddedBroker(Path(warehouse)).start().bootstrap_servers
