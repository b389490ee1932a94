"""Spark alone with Kafka, as a contender: a process of its own, with Spark 4.0.0 and the jars of its Kafka connector.

The jars come from Maven by the Ivy that PySpark ships, as those of the embedded broker do, once, into
`.venvs/spark-kafka-jars`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: requests and answers

from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import retrieve

ROOT = Path(__file__).resolve().parents[2]
NAME = "spark-kafka"
VERSION = "4.0.0"
_JARS = ROOT / ".venvs" / f"{NAME}-jars" / VERSION
_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="benchmarks"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{VERSION}" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class SparkKafka:
    """The process, which answers one request after the other."""

    process: subprocess.Popen[str]

    def ask(self, do: str, **what: object) -> dict[str, Any]:
        """The answer to a request. Ends the program when the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **what}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"Spark {VERSION} with Kafka has ended with {self.process.wait()}, see above")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def spark_kafka() -> Iterator[SparkKafka]:
    """The process, set up where it is missing, and ended with the block."""
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", NAME], check=True, stdout=sys.stderr)
    python = ROOT / ".venvs" / NAME / "bin" / "python"
    jars = ",".join(str(jar) for jar in ensure_jars())
    command: list[str | Path] = [python, Path(__file__).with_name("spark_kafka_peer.py"), jars]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    environ |= {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)}  # for `benchmarks.local_spark`
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=tempfile.gettempdir()
    ) as process:
        peer = SparkKafka(process)
        peer.answer()
        try:
            yield peer
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def ensure_jars() -> list[Path]:
    """The connector's jars that Spark itself does not have; downloads them where they are missing."""
    if not _JARS.exists():
        _JARS.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_JARS.parent) as name:
            work = Path(name)
            retrieve(_IVY_MODULE, work, find_java(os.environ), os.environ)
            (work / "jars").rename(_JARS)
    own = {_artifact_of(jar) for jar in (ROOT / ".venvs" / NAME).glob("lib/python*/site-packages/pyspark/jars/*.jar")}
    return sorted(jar for jar in _JARS.glob("*.jar") if _artifact_of(jar) not in own)


def _artifact_of(jar: Path) -> str:
    """The name of a jar without its version."""
    return jar.stem.rpartition("-")[0]
