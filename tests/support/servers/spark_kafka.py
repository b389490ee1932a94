"""Spark's own connector to Kafka, as released: jars that a session is started with.

They are downloaded once. `python -m tests.support.servers.spark_kafka` prints the pins of a new version.
"""

from __future__ import annotations

import os
from pathlib import Path

from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import retrieve
from tests.support.servers.pinned_jars import pinned_jars, print_pins

VERSION = "4.2.0"  # the newest that Maven's repositories have; it runs in Spark 4.3
PINS = Path(__file__).with_name(f"spark-kafka-{VERSION}.jars")
_JARS = {
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13"): VERSION,
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13"): VERSION,
    ("org.apache.kafka", "kafka-clients"): "3.9.2",
    ("org.apache.commons", "commons-pool2"): "2.13.1",
}  # what Spark has itself is left out
_DEPENDENCIES = "".join(
    f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->master"/>'
    for (org, name), version in _JARS.items()
)
_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="spark-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{_DEPENDENCIES}</dependencies>
</ivy-module>
"""


def connector_jars() -> list[Path]:
    """The connector's jars."""
    return pinned_jars(f"spark-kafka-{VERSION}", PINS, _downloaded)


def _downloaded(work: Path) -> list[Path]:
    retrieve(_MODULE, work, find_java(os.environ), os.environ)
    return sorted((work / "jars").glob("*.jar"))


if __name__ == "__main__":
    print_pins(_downloaded)
