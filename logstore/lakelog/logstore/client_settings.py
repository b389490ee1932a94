"""Settings of Kafka clients: those that a table may hold, and those that only the user of a table may give. Pure.

A table is a folder that others may have written, and settings make a client load libraries, run commands, read files,
and send passwords to the named servers. So a table names only its topic, its servers and time-outs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakelog.common.errors import OptionError
from lakelog.common.quoting import listed

SERVERS = "bootstrap.servers"
PROFILE = "profile"  # not a setting of clients: the name of a set of them, see `lakelog.protocol.access.kafka_profiles`
_SECRET = re.compile(r"password|secret|token|jaas|credential|ssl[._]key|\.pem|oauthbearer|ssl\.keystore", re.IGNORECASE)
_PROTOCOLS = frozenset({"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"})
_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_ALL_REPLICAS = ("all", "-1")
# The protocol of the servers: given together with the servers.
_OF_CONNECTIONS: Mapping[str, frozenset[str] | None] = {
    SERVERS: None,
    "security.protocol": _PROTOCOLS,
    "sasl.mechanism": _MECHANISMS,
    "sasl.mechanisms": _MECHANISMS,
}
_WITH_VALUES: Mapping[str, frozenset[str] | None] = {**_OF_CONNECTIONS, "acks": frozenset(_ALL_REPLICAS)}
_WRITES = "exactly-once writes"
_READS = "readers see each committed record once, from the offsets of a snapshot on"
# What lakelog's protocol sets, with the reason why no user can set it.
OWN: Mapping[str, str] = {
    "acks": "a record counts as logged once all in-sync replicas have it: only 'all' is possible",
    "allow.auto.create.topics": "a topic is created with its table, and another one of its name is refused",
    "auto.commit.enable": _READS,
    "auto.offset.reset": "a lost offset is an error or is healed, and never skipped",
    "check.crcs": "damaged records must be an error",
    "enable.auto.commit": "the offsets of a stream are in its checkpoint",
    "enable.auto.offset.store": "the offsets of a stream are in its checkpoint",
    "enable.idempotence": f"{_WRITES} need it",
    "enable.partition.eof": "readers find the end of a log by it",
    "group.id": "no offset is committed in a group; rights are granted for the group 'lakelog-reader'",
    "isolation.level": "only committed records are changes of the table; a table's reads are read_committed",
    "request.required.acks": "a record counts as logged once all in-sync replicas have it",
    "test.mock.num.brokers": "records would be in the memory of a client, and in no Kafka",
    "transactional.id": f"{_WRITES} name a bucket's writer by it: the table's uuid and the bucket's number",
}
SERVERS_WAYS = (
    "what gave these servers (a table's log.kafka.bootstrap.servers, the argument bootstrap_servers, a profile, or "
    "LAKELOG_KAFKA_BOOTSTRAP_SERVERS)"
)
WAYS = (
    "a profile in ~/.config/lakelog/kafka.toml, which the table's option log.kafka.profile may name; the variables "
    "LAKELOG_KAFKA_*, Spark's settings spark.lakelog.kafka.*, or Catalog(options={'kafka...': ...})"
)


def is_secret(key: str) -> bool:
    """Whether a setting of this name may hold a secret, which is never shown or stored."""
    return _SECRET.search(key) is not None


def check_not_own(settings: Mapping[str, str], *, prefix: str) -> None:
    """Raise OptionError, with the reason, for a setting that lakelog sets itself; `prefix` goes before its name."""
    for key in sorted(OWN.keys() & settings.keys()):
        if key != "acks" or settings[key].strip().lower() not in _ALL_REPLICAS:
            raise OptionError(f"option {prefix + key!r} belongs to lakelog itself, since {OWN[key]}; remove it")


def check_servers(settings: Mapping[str, str], *, prefix: str = "") -> None:
    """Raise OptionError for servers with a user in their name: clients accept none there."""
    if _names_user(settings.get(SERVERS, "")):
        raise OptionError(
            f"option {prefix + SERVERS!r} names a user before an @, maybe with a password, which a table would hold in "
            f"plain text; expected host:port, with commas. Give sasl.username and sasl.password beside them: in {WAYS}"
        )


def refused_of_tables(settings: Mapping[str, str]) -> list[str]:
    """The settings that a table may not hold, in order."""
    return sorted(
        key
        for key, value in settings.items()
        if key != PROFILE and (expected_instead(key, value) if key in HARMLESS else not _has_plain_value(key, value))
    )


def check_settings_of_table(settings: Mapping[str, str], *, prefix: str) -> None:
    """Raise OptionError for settings that a table may not hold, naming the settings and where they belong.

    The message shows values of harmless settings only.
    """
    check_not_own(settings, prefix=prefix)
    check_servers(settings, prefix=prefix)
    refused = refused_of_tables(settings)
    misfits = [key for key in refused if key in HARMLESS]
    if refused and refused == misfits:
        key = misfits[0]
        raise OptionError.bad_value(prefix + key, settings[key], expected_instead(key, settings[key]) or "")
    if refused:
        shown = listed(f"{prefix}{key}" for key in refused)
        why = "secrets would be there in plain text" if any(map(is_secret, refused)) else "others may have written it"
        raise OptionError(
            f"a table may not hold {shown}: {why}. Give it where the table is used, beside {SERVERS}: in {WAYS}"
        )


def joined_settings(table: Mapping[str, str], user: Mapping[str, str]) -> dict[str, str]:
    """The settings of a table and of its user; those of the user override those of the table.

    A user's settings beyond servers and time-outs, such as passwords, are for servers that the user names too, and
    never for a table's. Raises OptionError if the user names none.
    """
    plain = user.keys() <= HARMLESS | {SERVERS}
    if plain:
        return {**table, **user}
    if not user.get(SERVERS):
        raise OptionError(
            f"the Kafka settings {listed(sorted(user))} come without {SERVERS}; give the servers that they are "
            "for beside them: they are used with no others"
        )
    return {key: value for key, value in table.items() if key not in _OF_CONNECTIONS} | dict(user)


def without_secrets(text: str, settings: Mapping[str, str]) -> str:
    """`text` with the value of every secret setting masked."""
    for key, value in settings.items():
        if value and is_secret(key):
            text = text.replace(value, "***")
    return text


def _has_plain_value(key: str, value: str) -> bool:
    if key not in _WITH_VALUES:
        return False
    known = _WITH_VALUES[key]
    if known is None:
        return not _names_user(value)
    return not known.isdisjoint({value, value.lower(), value.upper()})


def _names_user(servers: str) -> bool:
    return "@" in servers


_INT_MAX = 2_147_483_647
_NUMBERS: Mapping[str, tuple[int, int]] = {  # the least and the most
    "batch.num.messages": (1, 1_000_000),
    "batch.size": (1, _INT_MAX),
    "compression.level": (-1, 12),
    "connections.max.idle.ms": (0, _INT_MAX),
    "delivery.timeout.ms": (0, _INT_MAX),
    "fetch.error.backoff.ms": (0, 300_000),
    "fetch.max.bytes": (0, 2_147_483_135),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.queue.backoff.ms": (0, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "linger.ms": (0, 900_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "message.timeout.ms": (0, _INT_MAX),
    "metadata.max.age.ms": (1, 86_400_000),
    "queue.buffering.max.kbytes": (1, _INT_MAX),
    "queue.buffering.max.messages": (0, _INT_MAX),
    "queue.buffering.max.ms": (0, 900_000),
    "queued.max.messages.kbytes": (1, 2_097_151),
    "queued.min.messages": (1, 10_000_000),
    "receive.message.max.bytes": (1_000, _INT_MAX),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1_000, _INT_MAX),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "transaction.timeout.ms": (1_000, _INT_MAX),
}
_WITH_DECIMALS = frozenset({"linger.ms", "queue.buffering.max.ms"})
_BOOLEANS = ("true", "false", "1", "0")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "broker.address.family": ("any", "v4", "v6"),
    "compression.codec": _CODECS,
    "compression.type": _CODECS,
    "socket.keepalive.enable": _BOOLEANS,
    "socket.nagle.disable": _BOOLEANS,
}
_STRINGS = frozenset({"client.id", "client.rack"})
HARMLESS = _NUMBERS.keys() | _WORDS.keys() | _STRINGS
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_DECIMALS = re.compile(r"(\.[0-9]{1,10})?$")


def expected_instead(key: str, value: str) -> str | None:
    """The expected values of a harmless setting, if its value does not fit; None if it does."""
    value = value.strip()
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        whole = _DECIMALS.sub("", value, count=1) if key in _WITH_DECIMALS else value
        fits = _NUMBER.fullmatch(whole) is not None and low <= float(value) <= high
        return None if fits else f"a number from {low} to {high}"
    words = _WORDS.get(key)
    if words is None or value.lower() in words:
        return None
    return f"one of {', '.join(words)}"
