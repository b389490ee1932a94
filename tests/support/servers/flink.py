"""Apache Flink's SQL in a process of its own, with its Kafka connector, debezium-json and Paimon, as released.

The jars are downloaded once, as Kafka's are. `python -m tests.support.servers.flink` prints the pins of a new version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: objects of the JVM

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import IVY_SETTINGS_KEY, retrieve
from tests.support.servers.pinned_jars import pinned_jars, print_pins

VERSION = "2.2.0"
CONNECTOR_VERSION = "5.0.0-2.2"
PAIMON_VERSION = "2.0.0"
PINS = Path(__file__).with_name("flink-2.2.0.jars")
_NAMES = (
    "flink-table-planner-loader",
    "flink-table-runtime",
    "flink-table-api-java-bridge",
    "flink-clients",
    "flink-connector-base",
    "flink-connector-files",
    "flink-json",
)
_CONNECTOR = "flink-sql-connector-kafka"
_PAIMON = "paimon-flink-2.0"  # of a Flink that is older by two versions: the newest that is released
_DEPENDENCIES = "".join(
    f'<dependency org="org.apache.flink" name="{name}" rev="{VERSION}" conf="default->default"/>' for name in _NAMES
)
_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="flink"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {_DEPENDENCIES}
    <dependency org="org.apache.flink" name="{_CONNECTOR}" rev="{CONNECTOR_VERSION}" conf="default->master"/>
  </dependencies>
</ivy-module>
"""
_PAIMON_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="paimon"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.paimon" name="{_PAIMON}" rev="{PAIMON_VERSION}" conf="default->*"/>
  </dependencies>
</ivy-module>
"""
# The jar holds all that it needs, and not every mirror has the POMs that its own POM inherits from.
_WITHOUT_POMS = """<ivysettings>
  <settings defaultResolver="jars"/>
  <resolvers><ibiblio name="jars" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
# What Flink's start scripts open of Java 17.
_OPENED = (
    "java.lang",
    "java.net",
    "java.io",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.text",
    "java.time",
)
_HADOOP = ("hadoop-client-*.jar", "commons-logging-*.jar")  # Paimon's catalogs want it; Spark has it
_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


@dataclass(slots=True)
class Flink:
    """A SQL session."""

    environment: Any

    def execute(self, statement: str) -> None:
        """Run a statement that gives no rows, such as an INSERT, and wait for its end."""
        getattr(self.environment.executeSql(statement), "await")()

    def run(self, statement: str) -> list[tuple[str, tuple[str | None, ...]]]:
        """Run a statement, and give the changes of a query: kind such as `+I`, and the fields as strings."""
        result = self.environment.executeSql(statement)
        changes = []
        rows = result.collect()
        while rows.hasNext():
            row = rows.next()
            fields = (row.getField(place) for place in range(row.getArity()))
            shown = tuple(None if value is None else str(value) for value in fields)
            changes.append((row.getKind().shortString(), shown))
        rows.close()
        return changes


def folded(changes: Sequence[tuple[str, tuple[str | None, ...]]]) -> list[tuple[str | None, ...]]:
    """The rows that a changelog leaves, sorted."""
    rows: list[tuple[str | None, ...]] = []
    for kind, row in changes:
        if kind in ("+I", "+U"):
            rows.append(row)
        else:
            rows.remove(row)
    return sorted(rows, key=str)


@contextmanager
def running_flink(folder: Path, *, is_batch: bool = False) -> Iterator[Flink]:
    """A Flink with one slot of parallelism, whose jobs are streams or `is_batch`. It ends with this block."""
    jars = os.pathsep.join(map(str, _jars()))
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    with (folder / "flink.log").open("w", encoding="utf-8") as log:
        port, token = launch_gateway(
            classpath=jars,
            javaopts=[*_OPTIONS, *opened, f"-Djava.io.tmpdir={folder}"],
            java_path=str(find_java(os.environ)),
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            api = gateway.jvm.org.apache.flink.table.api
            settings = api.EnvironmentSettings
            environment = api.TableEnvironment.create(
                settings.inBatchMode() if is_batch else settings.inStreamingMode()
            )
            environment.getConfig().set("parallelism.default", "1")
            yield Flink(environment)
        finally:
            gateway.shutdown()


def _jars() -> list[Path]:
    spark = Path(pyspark.__file__).parent / "jars"
    own = pinned_jars(f"flink-{VERSION}-paimon-{PAIMON_VERSION}", PINS, _downloaded)
    return [*own, *(jar for names in _HADOOP for jar in sorted(spark.glob(names)))]


def _downloaded(work: Path) -> list[Path]:
    """All jars, in the folder `jars` of `work`."""
    java = find_java(os.environ)
    settings = work / "settings.xml"
    settings.write_text(_WITHOUT_POMS)
    for module, environ in ((_MODULE, os.environ), (_PAIMON_MODULE, {IVY_SETTINGS_KEY: str(settings), **os.environ})):
        retrieve(module, work, java, environ)
    return sorted((work / "jars").glob("*.jar"))


if __name__ == "__main__":
    print_pins(_downloaded)
