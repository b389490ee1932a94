"""The connectors of other table formats to Spark, as released: jars that a session is started with.

They are downloaded once, checked against their pins. `python -m benchmarks.peers.peer_jars NAME` prints the pins of a
new version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import retrieve
from tests.support.servers.pinned_jars import pinned_jars, print_pins

# Organisation, module and version of each jar; what Spark has itself is left out.
CONNECTORS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "delta-4.0.0": [("io.delta", "delta-spark_2.13", "4.0.0"), ("io.delta", "delta-storage", "4.0.0")],
    "iceberg-1.10.1": [("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.1")],
    "paimon-0.9.0": [("org.apache.paimon", "paimon-spark-3.5", "0.9.0")],
    "hudi-1.0.2": [("org.apache.hudi", "hudi-spark3.5-bundle_2.12", "1.0.2")],
}


def connector_jars(name: str) -> list[Path]:
    """The jars of a connector."""
    return pinned_jars(name, Path(__file__).parents[1] / "data" / f"{name}.jars", partial(_downloaded, name))


def _downloaded(name: str, work: Path) -> list[Path]:
    dependencies = "".join(
        f'<dependency org="{org}" name="{module}" rev="{version}" conf="default->master"/>'
        for org, module, version in CONNECTORS[name]
    )
    described = (
        f'<ivy-module version="2.0"><info organisation="lakelog" module="peers"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{dependencies}</dependencies></ivy-module>"
    )
    retrieve(described, work, find_java(os.environ), os.environ)
    return sorted((work / "jars").glob("*.jar"))


if __name__ == "__main__":
    print_pins(partial(_downloaded, sys.argv[1]))
