"""Defaults of a session for new tables, `table-storage.*`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.catalog.columns.session_defaults import with_defaults
from lakelog.common.errors import OptionError
from lakelog.protocol.access.kafka_profiles import PROFILES_KEY


def test_a_new_table_takes_the_defaults_of_its_catalog_and_keeps_them(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, options={"table-storage.bucket": "3", "table-storage.file.format": "orc"})

    made = catalog.create_table("db.t", schema="id BIGINT NOT NULL", primary_keys="id", options={"bucket": "2"})

    assert (made.schema.options["bucket"], made.schema.options["file.format"]) == ("2", "orc")
    assert Catalog(tmp_path).load_table("db.t").schema.options["file.format"] == "orc"


def test_the_call_comes_before_variables_and_variables_before_the_profile(tmp_path: Path) -> None:
    profiles = tmp_path / "kafka.toml"
    profiles.write_text(
        '[table-storage]\nlog.system = "kafka"\nlog.retention = "1 d"\nbucket = 7\nfile.format = "avro"\n'
    )
    environ = {
        PROFILES_KEY: str(profiles),
        "LAKELOG_TABLE_STORAGE_LOG_RETENTION": "2 d",
        "LAKELOG_TABLE_STORAGE_LOG_CHANGELOG_MODE": "all",
        "LAKELOG_TABLE_STORAGE_BUCKET": "5",
    }

    assert with_defaults({}, {"bucket": "4"}, environ=environ) == {
        "log.system": "kafka",
        "log.retention": "2 d",
        "log.changelog-mode": "all",
        "bucket": "4",
        "file.format": "avro",
    }


def test_defaults_of_logs_are_for_tables_with_a_log(tmp_path: Path) -> None:
    call = {"log.changelog-mode": "upsert", "change-tracking": "false"}

    assert with_defaults({}, call, environ={PROFILES_KEY: str(tmp_path / "none")}) == {}
    logged = with_defaults({"log.system": "kafka"}, call, environ={PROFILES_KEY: str(tmp_path / "none")})
    assert logged == {"log.system": "kafka", **call}


@pytest.mark.parametrize("key", ["table-storage.log.sistem", "table-storage.log.topic", "table-storage.file.path"])
def test_a_default_of_an_option_that_does_not_exist_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{key}'"):
        Catalog(tmp_path, options={key: "kafka"})


def test_a_variable_that_names_no_option_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_TABLE_STORAGE_LOG_SISTEM", "kafka")
    with pytest.raises(OptionError, match="did you mean 'LAKELOG_TABLE_STORAGE_LOG_SYSTEM'"):
        Catalog(tmp_path).create_table("db.t", schema="id BIGINT")
