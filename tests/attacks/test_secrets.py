"""A password for Kafka is in no file, text or log of ours, wherever it comes from."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, open_table
from lakelog.catalog.catalog import open_to_mend
from lakelog.common.errors import LakelogError, OptionError
from lakelog.filestore.table import FileStoreTable
from lakelog.spark.options import open_from_options
from lakelog.spark.tables import log_target, resolve_table
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.promises import check_log_equals_files
from tests.support.streams.streams import feed, write_changes
from tests.support.tables.small_tables import altered_by_others

SECRET = "hunter2-8c1f"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def files_with_the_secret(*folders: Path) -> list[Path]:
    """The files below folders that hold the password."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def shown(thing: object) -> str:
    """All that a program or a debugger prints of an object by itself."""
    return f"{thing!r} {thing!s} {thing}"


def test_a_password_in_a_table_of_others_is_never_shown(tmp_path: Path) -> None:
    made = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    text = altered_by_others(made.schema, **{"log.kafka.sasl.password": SECRET})
    Path(made.path, "schema", "schema-0").write_text(text)
    store = FileStoreTable.open(made.path)
    assert store.options["log.kafka.sasl.password"] == SECRET
    assert SECRET not in shown(store) + shown(store.schema)
    opened = open_to_mend(made.path, None)
    assert SECRET not in shown(opened) + shown(vars(opened))
    with pytest.raises(OptionError) as caught:
        open_table(made.path)
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


def test_the_options_of_a_catalog_are_shown_and_stored_nowhere(
    tmp_path: Path, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"kafka.bootstrap.servers": bootstrap_servers, "kafka.sasl.username": "me", "kafka.sasl.password": SECRET}
    catalog = Catalog(tmp_path / "lake", options=options)
    with caplog.at_level(logging.DEBUG):
        table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})
        assert table.log is not None
        assert table.log.client_config["sasl.password"] == SECRET
        table.log.check_topic()
        target = log_target(table)
        catalog.drop_table("db.t")
    told = "".join(shown(thing) for thing in (catalog, table, table.log, target, table.schema))
    assert SECRET not in told + caplog.text
    assert table.schema.options["log.kafka.bootstrap.servers"] == bootstrap_servers
    assert not [key for key in table.schema.options if "sasl" in key]
    assert files_with_the_secret(tmp_path) == []


def test_no_error_of_a_client_shows_the_password(tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.sasl.password": SECRET, "kafka.sasl.mechanism": SECRET}
    with pytest.raises(LakelogError) as caught:
        Catalog(tmp_path / "lake", options=options | {"kafka.security.protocol": "SASL_SSL"}).create_table(
            "db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"}
        )
    chain: BaseException | None = caught.value
    while chain is not None:
        assert SECRET not in shown(chain)
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def scratch(since: float) -> list[Path]:
    """The folders where Sparks put what does not stay in memory, of those that did so since a time."""
    folder = Path(tempfile.gettempdir())
    found = [*folder.glob("blockmgr-*/*"), *folder.glob("spark-*/*")]
    return [path for path in found if path.is_dir() and path.stat().st_mtime >= since]


@pytest.mark.integration
def test_a_stream_leaves_the_password_in_no_file(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"kafka.bootstrap.servers": bootstrap_servers, "kafka.sasl.password": SECRET}
    catalog = Catalog(tmp_path / "lake", options=options)
    logged = {"log.system": "kafka", "log.changelog-mode": "all"}
    table = catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=logged)
    history = make_history(7, files=2, changes_per_file=50, keys=20)
    feed(tmp_path, history, range(2))
    started = time.time()
    with caplog.at_level(logging.DEBUG, logger="lakelog"):
        write_changes(spark, tmp_path, table)
    check_log_equals_files(table)
    assert files_with_the_secret(tmp_path, *scratch(started)) == []
    assert SECRET not in caplog.text


@pytest.mark.integration
def test_spark_sessions_tell_kafka_settings_but_no_secrets_that_spark_shows(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "evil:1"}
    table = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    Path(table.path, "schema", "schema-0").write_text(altered_by_others(table.schema, **made))
    given = {"bootstrap.servers": "ours:1", "sasl.password": SECRET, "ssl.key.pem": "-----BEGIN"}
    try:
        for key in ("bootstrap.servers", "sasl.password"):
            spark.conf.set(f"spark.lakelog.kafka.{key}", given[key])
        for name in (table.path, open_table(table.path), FileStoreTable.open(table.path)):
            log = resolve_table(name).log
            assert log is not None
            assert log.client_config == {"bootstrap.servers": "ours:1", "sasl.password": SECRET}
        spark.conf.set("spark.lakelog.kafka.ssl.key.pem", given["ssl.key.pem"])
        with pytest.raises(OptionError, match=r"Spark would show .*ssl\.key\.pem"):
            resolve_table(table.path)
    finally:
        for key in given:
            spark.conf.unset(f"spark.lakelog.kafka.{key}")


def test_options_of_spark_take_a_profile_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i"}
    table = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    Path(table.path, "schema", "schema-0").write_text(altered_by_others(table.schema, **made))
    (tmp_path / "kafka.toml").write_text(f'[p]\nbootstrap.servers = "ours:1"\nsasl.password = "{SECRET}"')
    (tmp_path / "kafka.toml").chmod(0o600)
    monkeypatch.setenv("LAKELOG_KAFKA_PROFILES", str(tmp_path / "kafka.toml"))
    log = open_from_options({"path": table.path, "kafka.profile": "p"}).log
    assert log is not None
    assert log.client_config == {"bootstrap.servers": "ours:1", "sasl.password": SECRET}
    with pytest.raises(OptionError, match=r"'kafka\.sasl\.password' is secret") as caught:
        open_from_options({"path": table.path, "kafka.sasl.password": SECRET})
    assert SECRET not in str(caught.value)
