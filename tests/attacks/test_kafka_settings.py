"""What a table says to Kafka's clients is harmless; what only a user may say goes to no servers but the user's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Catalog, Table, open_table
from lakelog.catalog.catalog import open_to_mend
from lakelog.cli.main import main
from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError, OptionError
from lakelog.filestore.alter.schema_changes import RemoveOption, SetOption
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.client_settings import OWN, is_secret, joined_settings
from lakelog.protocol.access.kafka_profiles import call_settings
from lakelog.protocol.access.servers import client_config_of
from tests.support.tables.small_tables import altered_by_others

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
REFUSED = {
    "plugin.library.paths": "/tmp/evil.so",
    "sasl.kerberos.kinit.cmd": "touch /tmp/evil",
    "sasl.kerberos.keytab": "/etc/krb5.keytab",
    "sasl.mechanism": "GSSAPI",
    "sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254/",
    "sasl.oauthbearer.config": "principal=x",
    "ssl.engine.location": "/tmp/evil.so",
    "ssl.providers": "evil",
    "ssl.key.location": "/home/me/key.pem",
    "ssl.keystore.location": "/home/me/store",
    "ssl.ca.location": "/tmp/evil.pem",
    "ssl.crl.location": "/etc/passwd",
    "enable.ssl.certificate.verification": "false",
    "ssl.endpoint.identification.algorithm": "none",
    "https.ca.location": "/tmp/evil.pem",
    "metadata.broker.list": "evil:9092",
    "sasl.username": "me",
    "sasl.password": "hunter2-in-plain-text",
    "ssl.key.password": "hunter2-in-plain-text",
    "debug": "all",
    "no.such.setting": "x",
    "security.protocol": "none",
    "acks": "0",
    "group.id": "g",
}
ODD_VALUES = {
    "linger.ms": "x",
    "socket.timeout.ms": "1",
    "batch.size": "5.5",
    "compression.type": "best",
    "socket.keepalive.enable": "maybe",
    "transaction.timeout.ms": "99999999999",
    "fetch.min.bytes": "",
}
WITH_USER = "one:9092,PLAINTEXT://me:hunter2@two:9092"
ALLOWED = {
    "bootstrap.servers": "one:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "socket.timeout.ms": "7000",
    "compression.type": "zstd",
    "linger.ms": "5",
    "acks": "all",
}
PROFILES = """
[prod]
bootstrap.servers = "ours:9093"
security.protocol = "SASL_SSL"
sasl.username = "lake"
sasl.password = "hunter2"
socket.timeout.ms = 9000

[lone]
sasl.password = "hunter2"

[own]
group.id = "mine"

[odd]
sasl.password = [1]
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has profiles."""
    path = tmp_path / "kafka.toml"
    path.write_text(PROFILES)
    path.chmod(0o600)
    return {"LAKELOG_KAFKA_PROFILES": str(path)}


def settings(table: Mapping[str, str], environ: Mapping[str, str], **call: str) -> dict[str, str]:
    """The settings that clients of a table get."""
    given = {key.replace("_", "."): value for key, value in call.items()}
    options = {f"log.kafka.{key}": value for key, value in table.items()}
    return client_config_of(options, "s3://nowhere/lake", given=given, environ=environ)


def with_options(folder: Path, options: Mapping[str, str]) -> Table:
    """A table with rows, to which another user has added options."""
    table = Catalog(folder / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    Path(table.path, "schema", "schema-0").write_text(altered_by_others(table.schema, **options))
    if "log.system" not in options:
        FileStoreTable.open(table.path).write(pa.table({"id": [1], "v": [2]}, schema=SCHEMA))
    return table


@pytest.mark.parametrize("key", REFUSED)
def test_a_table_is_not_made_with_what_only_a_user_may_say(tmp_path: Path, key: str) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers="nowhere:1")
    for logged in ({"log.system": "kafka"}, {}):
        options = {f"log.kafka.{key}": REFUSED[key], **logged}
        with pytest.raises(OptionError, match=rf"log\.kafka\.{key}") as caught:
            catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
        assert "hunter2" not in str(caught.value)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("key", REFUSED)
def test_a_table_is_neither_altered_to_it_nor_opened_with_it(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = f"log.kafka.{key}"
    clean = Catalog(tmp_path / "clean").create_table("db.t", schema=SCHEMA, primary_keys=["id"])
    with pytest.raises(InvalidRequestError, match=option):
        clean.alter(SetOption(option, REFUSED[key]))
    made = with_options(tmp_path, {option: REFUSED[key], "log.system": "kafka", "log.topic": "t", "log.topic-id": "i"})
    for named, warehouse in ((made.path, None), ("db.t", tmp_path / "lake")):
        with pytest.raises(OptionError, match=rf"table {made.path}: .*--unset {option}"):
            open_table(named, warehouse)
    for command in (
        ("remove-orphan-files", made.path),
        ("cat", made.path),
        ("schema", made.path),
        ("expire-snapshots", made.path),
    ):
        with pytest.raises(SystemExit):
            main(("table", *command))
        seen = capsys.readouterr()
        assert option in seen.err
        assert "hunter2" not in seen.err + seen.out


@pytest.mark.parametrize("key", ODD_VALUES)
def test_a_table_is_neither_made_with_values_that_clients_refuse_nor_altered_to_them(tmp_path: Path, key: str) -> None:
    option, value = f"log.kafka.{key}", ODD_VALUES[key]
    catalog = Catalog(tmp_path / "lake", bootstrap_servers="nowhere:1")
    for logged in ({"log.system": "kafka"}, {}):
        with pytest.raises(OptionError, match=rf"'{option}' has the value '{value}'; expected (a number from|one of)"):
            catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={option: value, **logged})
    assert not (tmp_path / "lake").exists()
    made = with_options(tmp_path, {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i"})
    with pytest.raises(OptionError, match=rf"'{option}' has the value"):
        open_table(made.path).alter(SetOption(option, value))


@pytest.mark.parametrize("value", ["7", " 7", "1000"])
def test_numbers_that_clients_take_are_taken(value: str) -> None:
    given = {"linger.ms": "0.5", "batch.size": value, "compression.type": "ZSTD", "client.id": "me@here"}
    assert settings({"bootstrap.servers": "one:9092", **given}, {}) == {"bootstrap.servers": "one:9092", **given}


def test_servers_with_a_user_are_refused_wherever_they_come_from(tmp_path: Path) -> None:
    logged = {"log.system": "kafka"}
    named = {"log.kafka.bootstrap.servers": WITH_USER}
    made = with_options(tmp_path, {"log.topic": "t", "log.topic-id": "i", **logged})
    profile = tmp_path / "kafka.toml"
    profile.write_text(f'[p]\nbootstrap.servers = "{WITH_USER}"')
    profile.chmod(0o600)
    for call in (
        lambda: Catalog(tmp_path).create_table("db.new", schema=SCHEMA, primary_keys=["id"], options=named),
        lambda: Catalog(tmp_path).create_table("db.new", schema=SCHEMA, primary_keys=["id"], options=named | logged),
        lambda: Catalog(tmp_path, bootstrap_servers=WITH_USER).create_table(
            "db.new", schema=SCHEMA, primary_keys=["id"], options=logged
        ),
        lambda: open_table(made.path).alter(SetOption("log.kafka.bootstrap.servers", WITH_USER)),
        lambda: settings({"profile": "p"}, {"LAKELOG_KAFKA_PROFILES": str(profile)}),
        lambda: settings({}, {"LAKELOG_KAFKA_BOOTSTRAP_SERVERS": WITH_USER}),
        lambda: settings({}, {}, bootstrap_servers=WITH_USER),
    ):
        with pytest.raises(
            OptionError, match=r"bootstrap\.servers' names a user before an @.*sasl\.password"
        ) as caught:
            call()
        assert "hunter2" not in str(caught.value)
    assert not (tmp_path / "db").exists()


def test_a_table_whose_servers_have_a_user_says_how_to_take_it_out(tmp_path: Path) -> None:
    logged = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i"}
    made = with_options(tmp_path, {"log.kafka.bootstrap.servers": WITH_USER, **logged})
    with pytest.raises(
        OptionError, match=r"--unset log\.kafka\.bootstrap\.servers; change the passwords too"
    ) as caught:
        open_table(made.path)
    assert "hunter2" not in str(caught.value)


def test_the_way_out_that_the_error_names_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = with_options(tmp_path, {f"log.kafka.{key}": value for key, value in REFUSED.items()})
    with pytest.raises(OptionError) as caught:
        open_table(made.path)
    _, _, command = str(caught.value).partition("To remove it: lakelog ")
    assert "older schema files still hold them" in command
    with pytest.raises(SystemExit):
        main(tuple(command.partition(";")[0].split()))
    seen = capsys.readouterr()
    assert seen.out == "schema 1\n", seen.err
    assert open_table(made.path).to_arrow().num_rows == 1
    assert "hunter2" not in seen.out + seen.err


def test_one_of_several_cannot_stay(tmp_path: Path) -> None:
    made = with_options(tmp_path, {"log.kafka.plugin.library.paths": "x", "log.kafka.sasl.password": "hunter2"})
    opened = open_to_mend(made.path, None)
    with pytest.raises(OptionError, match="plugin"):
        opened.alter(RemoveOption("log.kafka.sasl.password"))
    with pytest.raises(OptionError, match="plugin"):
        opened.log  # noqa: B018  # raises


def test_a_table_says_where_its_topic_is_and_how_patient_clients_are() -> None:
    assert settings(ALLOWED, {}) == ALLOWED


def test_without_settings_of_the_user_the_variable_is_for_tables_that_name_no_servers() -> None:
    environ = {"LAKELOG_KAFKA_BOOTSTRAP_SERVERS": "theirs:9092"}
    assert settings({}, environ) == {"bootstrap.servers": "theirs:9092"}
    assert settings({"bootstrap.servers": "one:9092"}, environ) == {"bootstrap.servers": "one:9092"}


PROD = {
    "bootstrap.servers": "ours:9093",
    "security.protocol": "SASL_SSL",
    "sasl.username": "lake",
    "sasl.password": "hunter2",
    "socket.timeout.ms": "9000",
}


def test_a_profile_is_named_by_the_table_the_environment_or_the_call(environ: dict[str, str]) -> None:
    assert settings({"profile": "prod"}, environ) == PROD
    assert settings({}, environ | {"LAKELOG_KAFKA_PROFILE": "prod"}) == PROD
    assert settings({"profile": "lone"}, environ, profile="prod") == PROD


def test_what_is_said_nearer_goes_first(environ: dict[str, str]) -> None:
    variables = {"LAKELOG_KAFKA_SASL_PASSWORD": "swordfish", "LAKELOG_KAFKA_SASL_USERNAME": "env"}
    found = settings({"profile": "prod", "linger.ms": "5"}, environ | variables, sasl_username="call")
    assert found == PROD | {"linger.ms": "5", "sasl.password": "swordfish", "sasl.username": "call"}


def test_variables_alone_are_a_whole_setting() -> None:
    variables = {"LAKELOG_KAFKA_SASL_PASSWORD": "x", "LAKELOG_KAFKA_BOOTSTRAP_SERVERS": "ours:1"}
    assert settings({"bootstrap.servers": "evil:9092"}, variables) == {
        "bootstrap.servers": "ours:1",
        "sasl.password": "x",
    }


def test_passwords_without_servers_are_used_with_none(environ: dict[str, str]) -> None:
    hostile = {"bootstrap.servers": "evil:9092", "security.protocol": "plaintext", "sasl.mechanism": "PLAIN"}
    for table, variables, call in (
        (hostile | {"profile": "lone"}, environ, {}),
        (hostile, {"LAKELOG_KAFKA_SASL_PASSWORD": "hunter2"}, {}),
        (hostile, {}, {"sasl_password": "hunter2"}),
    ):
        with pytest.raises(OptionError, match=r"come without bootstrap\.servers") as caught:
            settings(table, variables, **call)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", OWN)
def test_what_the_protocol_sets_is_refused_by_name_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    profile = tmp_path / "kafka.toml"
    profile.write_text(f'[p]\n"{key}" = "0"')
    profile.chmod(0o600)
    variable = f"LAKELOG_KAFKA_{key.upper().replace('.', '_')}"
    for call in (
        lambda: Catalog(tmp_path, options={f"kafka.{key}": "0"}),
        lambda: Catalog(tmp_path, options={f"log.kafka.{key}": "0"}),
        lambda: open_table(tmp_path, options={f"kafka.{key}": "0"}),
        lambda: settings({}, {variable: "0"}),
        lambda: settings({}, {"LAKELOG_KAFKA_PROFILES": str(profile), "LAKELOG_KAFKA_PROFILE": "p"}),
        lambda: Catalog(tmp_path).create_table("db.t", schema=SCHEMA, options={f"log.kafka.{key}": "0"}),
    ):
        with pytest.raises(OptionError) as caught:
            call()
        assert key in str(caught.value)
        assert OWN[key] in str(caught.value)


def test_acks_of_all_replicas_are_what_the_protocol_sets_anyway() -> None:
    assert settings({}, {}, bootstrap_servers="h:1", acks="all")["acks"] == "all"


@pytest.mark.parametrize("key", ["ssl.ca.location", "queue.buffering.max.ms", "plugin.library.paths", "debug", "dns.x"])
def test_any_other_setting_of_clients_is_passed_on_from_its_user(tmp_path: Path, key: str) -> None:
    given = {"bootstrap.servers": "h:1", key: "x"}
    variables = {f"LAKELOG_KAFKA_{name.upper().replace('.', '_')}": value for name, value in given.items()}
    profile = tmp_path / "kafka.toml"
    profile.write_text("[p]\n" + "".join(f'"{name}" = "{value}"\n' for name, value in given.items()))
    profile.chmod(0o600)
    assert settings({}, {}, **{name.replace(".", "_"): value for name, value in given.items()}) == given
    assert settings({}, variables) == given
    assert settings({"profile": "p"}, {"LAKELOG_KAFKA_PROFILES": str(profile)}) == given
    for prefix in ("kafka.", "log.kafka."):
        assert call_settings({f"{prefix}{name}": value for name, value in given.items()}) == given


keys = st.sampled_from([*ALLOWED, "sasl.password", "sasl.username", "ssl.ca.location", "plugin.library.paths"])
tables = st.dictionaries(st.sampled_from(list(ALLOWED)), st.just("table"))


@given(table=tables, user=st.dictionaries(keys, st.just("user")))
def test_passwords_go_to_the_servers_of_their_giver_alone(table: dict[str, str], user: dict[str, str]) -> None:
    try:
        found = joined_settings(table, user)
    except OptionError:
        assert "bootstrap.servers" not in user
        return
    assert user.items() <= found.items()
    if user.keys() & {"sasl.password", "sasl.username", "security.protocol", "ssl.ca.location"}:
        assert found["bootstrap.servers"] == "user"
        assert "table" not in [found.get("security.protocol"), found.get("sasl.mechanism")]


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("nope", NotFoundError, r"has no profile 'nope'.*it has: lone, odd, own, prod"),
        ("../prod", InvalidRequestError, "is not the name of a profile"),
        ("own", OptionError, r"profile 'own' in .*group\.id.*belongs to lakelog itself"),
        ("odd", InvalidRequestError, r"'sasl\.password' of profile 'odd' .* is a list"),
    ],
)
def test_a_profile_that_does_not_fit_is_an_error(
    environ: dict[str, str], name: str, kind: type[LakelogError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        settings({"profile": name}, environ)


def test_an_invalid_file_of_profiles_is_an_error_without_its_contents(tmp_path: Path) -> None:
    path = tmp_path / "kafka.toml"
    path.write_text("[prod]\nsasl.password = hunter2\n")
    with pytest.raises(InvalidRequestError, match=r"kafka\.toml is not a TOML file \(at line 2") as caught:
        settings({"profile": "prod"}, {"LAKELOG_KAFKA_PROFILES": str(path)})
    assert "hunter2" not in f"{caught.value!r}{caught.value.__cause__!r}"
    with pytest.raises(NotFoundError, match=r"it has: none"):
        settings({"profile": "prod"}, {"LAKELOG_KAFKA_PROFILES": str(tmp_path / "missing.toml")})
    with pytest.raises(NotFoundError, match=r"lakelog/kafka\.toml has no profile"):
        settings({"profile": "prod"}, {"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_file_of_profiles_that_others_may_read_is_warned_of(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    Path(environ["LAKELOG_KAFKA_PROFILES"]).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        settings({"profile": "prod"}, environ)
        settings({"profile": "prod"}, environ)
    assert [record.getMessage() for record in caplog.records] == [
        f"{environ['LAKELOG_KAFKA_PROFILES']} may be read by other users of this machine: chmod 600 it"
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl_key",
        "sasl.oauthbearer.client.secret",
        "sasl.jaas.config",
    ],
)
def test_secrets_are_known_by_their_names(key: str) -> None:
    assert is_secret(key)
