"""Apache Flink's SQL in a process of its own: its planner, its Kafka connector and its debezium-json, as released.

The jars are downloaded once, as Kafka's are. `python -m tests.support.flink` prints the pins of a new version.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: objects of the JVM

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.ivy import retrieve
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import cache_dir

VERSION = "2.2.0"
CONNECTOR_VERSION = "5.0.0-2.2"
PINS = Path(__file__).with_name("flink-2.2.0.jars")
_NAMES = (
    "flink-table-planner-loader",
    "flink-table-runtime",
    "flink-table-api-java-bridge",
    "flink-clients",
    "flink-connector-base",
    "flink-json",
)
_CONNECTOR = "flink-sql-connector-kafka"
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
_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


@dataclass(slots=True)
class Flink:
    """A SQL session."""

    environment: Any

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
def running_flink(folder: Path) -> Iterator[Flink]:
    """A Flink with one slot of parallelism. It ends with this block."""
    jars = os.pathsep.join(map(str, _jars()))
    opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED]
    with (folder / "flink.log").open("wb") as log:
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
            environment = api.TableEnvironment.create(api.EnvironmentSettings.inStreamingMode())
            environment.getConfig().set("parallelism.default", "1")
            yield Flink(environment)
        finally:
            gateway.shutdown()


def _jars() -> list[Path]:
    pins = {name: digest for digest, name in map(str.split, PINS.read_text("ascii").splitlines())}
    target = cache_dir(os.environ) / f"flink-{VERSION}"
    with exclusive_lock(target.with_name(f".{target.name}.lock"), timeout_seconds=900, purpose="download of Flink"):
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as work:
                retrieve(_MODULE, Path(work), find_java(os.environ), os.environ)
                found = {path.name: _sha256(path) for path in Path(work, "jars").glob("*.jar")}
                assert found == pins, "the download differs from the pinned jars"
                Path(work, "jars").rename(target)
    return [target / name for name in sorted(pins)]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        retrieve(_MODULE, Path(place), find_java(os.environ), os.environ)
        for jar in sorted(Path(place, "jars").glob("*.jar")):
            print(_sha256(jar), jar.name)
