"""An HDFS for tests: a NameNode and a DataNode of Apache Hadoop, each a process of its own.

PySpark has Hadoop's client jars; the one jar with the servers is downloaded once, as Kafka's are.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.common.errors import LakelogError
from lakelog.filestore.io.hdfs import HdfsFileIO
from lakelog.logstore.broker.broker_config import is_port_free
from lakelog.logstore.broker.file_lock import exclusive_lock
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import cache_dir, retrieve

VERSION = "3.5.0"
JAR = f"hadoop-client-minicluster-{VERSION}.jar"
SHA256 = "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
SETTINGS = {
    "dfs.replication": "1",
    "dfs.permissions.enabled": "false",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.namenode.safemode.extension": "0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
}
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_MODULE = f"""<ivy-module version="2.0">
  <info organisation="lakelog" module="hdfs"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.hadoop" name="hadoop-client-minicluster" rev="{VERSION}" conf="default->master"/>
  </dependencies>
</ivy-module>
"""
_START_SECONDS = 90


@dataclass(slots=True)
class Hdfs:
    """Where it answers, and its processes by the names of their classes."""

    url: str
    folder: Path
    class_path: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, server: str) -> None:
        """Start one of the servers; does not wait."""
        with (self.folder / f"{server.rpartition('.')[2]}.log").open("ab") as log:
            self.processes[server] = subprocess.Popen(self.command(server), stdout=log, stderr=log)

    def kill(self, server: str) -> None:
        """Kill one of the servers."""
        self.processes[server].kill()
        self.processes[server].wait()

    def wait(self) -> None:
        """Wait until a file can be written."""
        deadline = time.monotonic() + _START_SECONDS
        probe = f"{self.url}/probe-of-tests"
        while True:
            try:
                HdfsFileIO((("dfs.client.failover.max.attempts", "1"),)).write_bytes(probe, b"1")
                return
            except LakelogError as error:
                if time.monotonic() > deadline:
                    logs = "".join(log.read_text()[-2_000:] for log in self.folder.glob("*.log"))
                    raise AssertionError(f"HDFS does not start: {error}\n{logs}") from error
                time.sleep(0.2)

    def command(self, server: str, *arguments: str) -> list[str]:
        """What runs a server."""
        java = str(find_java(os.environ))
        return [java, "-Xmx192m", "-XX:TieredStopAtLevel=1", "-cp", self.class_path, server, *arguments]


@contextmanager
def running_hdfs(folder: Path) -> Iterator[Hdfs]:
    """Start an HDFS whose files lie in a folder, and stop it."""
    port = next(port for port in iter(lambda: random.randrange(20_000, 30_000), 0) if is_port_free(port))
    url = f"hdfs://127.0.0.1:{port}"
    _write_settings(folder / "core-site.xml", {"fs.defaultFS": url, "hadoop.tmp.dir": str(folder / "data")})
    _write_settings(folder / "hdfs-site.xml", SETTINGS)
    hdfs = Hdfs(url, folder, os.pathsep.join([str(folder), str(_servers_jar()), str(_jars_of_pyspark() / "*")]))
    subprocess.run(hdfs.command(NAME_NODE, "-format", "-nonInteractive"), check=True, capture_output=True)
    try:
        hdfs.start(NAME_NODE)
        hdfs.start(DATA_NODE)
        hdfs.wait()
        yield hdfs
    finally:
        for process in hdfs.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _servers_jar() -> Path:
    jar = cache_dir(os.environ) / f"hadoop-{VERSION}" / JAR
    lock = jar.parent.with_name(f".{jar.parent.name}.lock")
    with exclusive_lock(lock, timeout_seconds=600, purpose="download of Apache Hadoop"):
        if not jar.exists():
            jar.parent.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=jar.parent) as work:
                retrieve(_MODULE, Path(work), find_java(os.environ), os.environ)
                found = Path(work, "jars", JAR)
                assert hashlib.sha256(found.read_bytes()).hexdigest() == SHA256
                found.rename(jar)
    return jar


def _jars_of_pyspark() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    assert (jars / f"hadoop-client-api-{VERSION}.jar").exists(), "pin the servers to the version of PySpark's Hadoop"
    return jars


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    rows = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
    path.write_text(f"<configuration>{rows}</configuration>")
