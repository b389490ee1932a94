"""Options of the log store."""

from __future__ import annotations

import pytest

from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import check_known
from lakelog.logstore.options import (
    FORMAT,
    KEY_FORMAT,
    LOG_SYSTEM,
    LOGSTORE_OPTIONS,
    PREFIXES,
    ChangelogMode,
    LogSystem,
    changelog_mode,
    check_log_modes,
    client_config,
    topic_config,
)


def test_kafka_options_reach_the_clients_without_their_prefix() -> None:
    given = {"log.kafka.bootstrap.servers": "h:1", "log.kafka.linger.ms": "7", "log.topic": "t", "bucket": "3"}

    assert client_config(given) == {"bootstrap.servers": "h:1", "linger.ms": "7"}


@pytest.mark.parametrize("key", ["transactional.id", "isolation.level", "auto.offset.reset", "group.id"])
def test_what_exactly_once_rests_on_cannot_be_set(key: str) -> None:
    with pytest.raises(OptionError, match=f"option 'log.kafka.{key}' belongs to lakelog itself"):
        client_config({f"log.kafka.{key}": "x"})


@pytest.mark.parametrize(
    ("given", "has_primary_key", "mode"),
    [
        ("auto", True, ChangelogMode.UPSERT),
        ("auto", False, ChangelogMode.ALL),
        ("all", True, ChangelogMode.ALL),
        ("upsert", True, ChangelogMode.UPSERT),
    ],
)
def test_the_changelog_mode_follows_the_key(given: str, has_primary_key: bool, mode: ChangelogMode) -> None:
    assert changelog_mode({"log.changelog-mode": given}, has_primary_key=has_primary_key) is mode


def test_upsert_without_a_key_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="needs a primary key"):
        changelog_mode({"log.changelog-mode": "upsert"}, has_primary_key=False)


UPSERT_NEEDS_A_KEY = "'log.changelog-mode' has the value 'upsert', which needs a primary key, and the table has none"
EVENTUAL_NEEDS_A_KEY = "'log.consistency' has the value 'eventual', which needs a primary key, and the table has none"
EVENTUAL_WITH_ALL = "'log.consistency' has the value 'eventual', which does not go with log.changelog-mode=all"


@pytest.mark.parametrize(
    ("consistency", "has_primary_key", "refused"),
    [
        ("transactional", True, {}),
        ("transactional", False, {"upsert": UPSERT_NEEDS_A_KEY}),
        ("eventual", True, {"all": EVENTUAL_WITH_ALL}),
        ("eventual", False, dict.fromkeys(ChangelogMode, EVENTUAL_NEEDS_A_KEY)),
    ],
)
def test_consistency_and_changelog_mode_go_together_as_flip_188_has_it(
    consistency: str, has_primary_key: bool, refused: dict[str, str]
) -> None:
    for mode in ChangelogMode:
        given = {"log.consistency": consistency, "log.changelog-mode": mode.value}
        if mode.value not in refused:
            check_log_modes(given, has_primary_key=has_primary_key)
            continue
        with pytest.raises(InvalidRequestError, match=refused[mode.value]):
            check_log_modes(given, has_primary_key=has_primary_key)


def test_formats_have_the_values_that_exist() -> None:
    assert (FORMAT.of({"log.format": "debezium-json"}), KEY_FORMAT.of({"log.key.format": "json"})) == (
        FORMAT.default,
        KEY_FORMAT.default,
    )
    for key, expected in (("log.format", "debezium-json"), ("log.key.format", "json")):
        with pytest.raises(OptionError, match=rf"option '{key}' has the value 'avro'; expected {expected}"):
            check_log_modes({key: "avro"}, has_primary_key=True)


def test_kafka_itself_compacts_and_deletes_nothing_in_a_topic() -> None:
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert topic_config({}) == kept | {"max.message.bytes": "8388608"}
    config = topic_config({"log.retention": "2 d", "log.max-record-size": "1 mb"})
    assert config == kept | {"max.message.bytes": "1048576"}


def test_bad_values_name_key_value_and_type() -> None:
    assert LOG_SYSTEM.of({"log.system": "kafka"}) is LogSystem.KAFKA
    with pytest.raises(OptionError, match=r"option 'log.system' has the value 'pulsar'; expected none or kafka"):
        LOG_SYSTEM.of({"log.system": "pulsar"})


def test_every_declared_key_is_known_and_a_misspelt_one_is_not() -> None:
    known = {"log.kafka.anything": "1"} | dict.fromkeys((option.key for option in LOGSTORE_OPTIONS), "1 s")
    check_known(known, LOGSTORE_OPTIONS, PREFIXES)
    with pytest.raises(OptionError) as caught:
        check_known({"log.sytem": "kafka"}, LOGSTORE_OPTIONS, PREFIXES)
    assert "did you mean 'log.system'?" in str(caught.value)
