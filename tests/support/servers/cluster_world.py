"""A cluster with what it needs outside: an object store and a Kafka; and drivers that run jobs there."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: what JSON gives

from lakelog.catalog import Catalog
from lakelog.logstore.broker.broker import EmbeddedBroker
from tests.support.servers.s3_server import S3Server, running_s3
from tests.support.servers.spark_cluster import HOST, Driver, SparkCluster, running_cluster

JOB = Path(__file__).parents[1] / "jobs" / "cluster_job.py"
SCHEMA = "id BIGINT NOT NULL, name STRING, amount BIGINT"
LOGGED = {"bucket": "4", "log.system": "kafka", "log.changelog-mode": "all"}
Job = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWorld:
    """A running cluster, its object store and its Kafka; and the catalog as this process sees it."""

    cluster: SparkCluster
    store: S3Server
    broker: EmbeddedBroker
    servers: str
    warehouse: str

    @property
    def catalog(self) -> Catalog:
        """The warehouse in the object store, whose logs are in the Kafka outside."""
        return Catalog(self.warehouse, self.servers, options=self.store.options)

    def make_table(self, name: str, options: Mapping[str, str], *, has_key: bool = True) -> None:
        """Create a table for the rows of the jobs."""
        keys = ["id"] if has_key else []
        if "log.system" in options:  # readers that no session belongs to find Kafka by the table
            options = {**options, "log.kafka.bootstrap.servers": self.servers}
        self.catalog.create_table(name, schema=SCHEMA, primary_keys=keys, options=options)

    def settings(self, conf: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What a driver must know: the cluster, the warehouse, and the settings of Spark."""
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "640m",
            "spark.executor.memory": "512m",
            "spark.pyspark.python": str(self.cluster.python),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        return {
            "master": self.cluster.master,
            "warehouse": self.warehouse,
            "store": self.store.options,
            "kafka": self.servers,
            "conf": {**settings, **(conf or {})},
        }

    def start(self, jobs: Sequence[Job], *, name: str = "driver", conf: Mapping[str, str] | None = None) -> Driver:
        """Start a driver that runs jobs, in a folder of its own; a second one with the name continues in that."""
        arguments = [json.dumps(self.settings(conf)), json.dumps(list(jobs))]
        return self.cluster.driver(JOB, arguments, name=name)

    def run(self, jobs: Sequence[Job], *, name: str = "driver", conf: Mapping[str, str] | None = None) -> list[Any]:
        """Run jobs in a driver, and give their answers."""
        answers = self.start(jobs, name=name, conf=conf).wait(60 + 120 * len(jobs)).splitlines()[-1]
        found: list[Any] = json.loads(answers)
        return found

    def restart_kafka(self) -> None:
        """End Kafka by SIGKILL, and start it again at its port."""
        status = self.broker.status()
        assert status is not None, "Kafka runs"
        os.kill(status.pid, signal.SIGKILL)
        self.broker.start()


@contextmanager
def running_world(folder: Path, python: Path, moto: Path, *, memory_mib: int = 1024) -> Iterator[ClusterWorld]:
    """A cluster with an object store and a Kafka of its own."""
    broker = EmbeddedBroker(folder / "kafka")
    try:
        servers = broker.start().bootstrap_servers
        with running_s3(moto) as store, running_cluster(folder / "cluster", python, memory_mib=memory_mib) as cluster:
            warehouse = f"s3://{store.new_bucket()}/lake"
            yield ClusterWorld(cluster=cluster, store=store, broker=broker, servers=servers, warehouse=warehouse)
    finally:
        broker.stop()
