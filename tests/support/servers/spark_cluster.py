"""A Spark standalone cluster on loopback, of what pip installs: a master, workers of one core, drivers.

Each is a process of its own with an environment, a home, a temporary folder and a working folder of its own. Their
Python is an environment into which the wheel was installed; nothing of the source tree is on its path. Workers do not
see the folders of drivers, where the system lets them have mounts of their own (root does). Every process of a cluster,
executors and Python workers too, carries a mark in its environment, by which it is found and ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.support.servers.wheel import ROOT

HOST = "127.0.0.1"
START_SECONDS = 60.0
_MARK = "LAKELOG_TEST_CLUSTER"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_HIDE = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')  # a folder, a command
_PYTHON_DAEMON = "pyspark.daemon"
# Such processes live for minutes, and share two cores: fast compilation counts for more than fast code.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def installed_wheel(folder: Path) -> Path:
    """Install the wheel with its pinned requirements into an environment of its own; returns its Python."""
    uv = Path(sys.executable).with_name("uv")
    environment = folder / "environment"
    python = environment / "bin" / "python"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install: list[str | Path] = [uv, "--system-certs", "pip", "install", "--quiet", "--python", python]
    pins = ROOT / "requirements" / "runtime.txt"
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", "--without-pip", environment],
        [*install, "--require-hashes", "-r", pins],
        [*install, "--no-deps", wheel],
    ]
    for command in commands:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return python


@dataclass(frozen=True, slots=True)
class DriverCommand:
    """The command of a driver, and where it runs."""

    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


@dataclass(slots=True)
class Driver:
    """A driver in client mode. `output` is what it printed, Spark's log too."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self, seconds: float) -> str:
        """Wait for its end; returns its output. A driver that fails, or that does not end in time, fails the test."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the driver did not end in {seconds} s:\n{self.tail()}") from None
        assert code == 0, f"the driver ended with {code}:\n{self.tail()}"
        return self.output.read_text("utf-8", "replace")

    def kill(self) -> None:
        """End Python and JVM of the driver by SIGKILL."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tail(self) -> str:
        """The end of its output."""
        return self.output.read_text("utf-8", "replace")[-6000:]


@dataclass(slots=True, kw_only=True)
class SparkCluster:
    """A master and workers of one core each."""

    folder: Path
    python: Path  # of the environment with the wheel
    memory_mib: int = 1024  # for the executors of a worker
    master: str = ""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _master: subprocess.Popen[bytes] | None = None
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: int = 0

    @property
    def drivers(self) -> Path:
        """The folder with the folders of drivers."""
        return self.folder / "drivers"

    @property
    def spark_home(self) -> Path:
        """The folder of the installed PySpark."""
        (home,) = self.python.parent.parent.glob("lib/python*/site-packages/pyspark")
        return home

    def start(self, worker_count: int = 2) -> None:
        """Start the master, then the workers, and wait until they are registered."""
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = probe.getsockname()[1]
        self.master = f"spark://{HOST}:{port}"
        program = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"]
        # Executors are killed often: by default an application loses its place after ten.
        options = {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1"}
        self._master = self._spark_class("master", program, options)
        self._await("master", "I have been elected leader")
        for number in range(worker_count):
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start a worker, and wait until it is registered."""
        name = f"worker-{number}"
        self.drivers.mkdir(exist_ok=True)
        program = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", f"{self.memory_mib}m"]
        place = ["--host", HOST, "--webui-port", "0", "--work-dir", str(self.folder / name / "work")]
        options = {"SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true -Dspark.worker.cleanup.interval=60"}
        hidden = self.drivers if can_hide() else None
        self.workers[number] = self._spark_class(name, [*program, *place, self.master], options, hidden=hidden)
        self._await(name, "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """End a worker by SIGKILL; its executors end when they notice."""
        process = self.workers.pop(number)
        process.kill()
        process.wait()

    def driver_command(self, script: Path, arguments: Sequence[str], *, name: str = "driver") -> DriverCommand:
        """How a driver is started: a copy of the script, in a folder of the driver's own."""
        home = self.drivers / name
        environment = self._environment(home)
        copy = home / script.name
        shutil.copy(script, copy)
        return DriverCommand([str(self.python), str(copy), *arguments], home, environment)

    def driver(
        self,
        script: Path,
        arguments: Sequence[str] = (),
        *,
        name: str = "driver",
        variables: Mapping[str, str] | None = None,
    ) -> Driver:
        """Start a driver with more variables; another one with its name gets the same folder."""
        command = self.driver_command(script, arguments, name=name)
        self._started += 1
        output = command.folder / f"driver-{self._started}.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                command.arguments,
                cwd=command.folder,
                env={**command.environment, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return Driver(process, output)

    def executors(self) -> dict[int, int]:
        """{process id: number of the worker} of the executors that run."""
        numbers = {process.pid: number for number, process in self.workers.items()}
        of = {pid: numbers.get(_parent(pid)) for pid, command in self._processes() if _EXECUTOR in command}
        return {pid: number for pid, number in of.items() if number is not None}

    def python_daemons(self) -> list[int]:
        """The process ids of the executors' Pythons that start Python workers, and of the workers."""
        return [pid for pid, command in self._processes() if _PYTHON_DAEMON in command]

    def stop(self) -> None:
        """End every process of the cluster."""
        for process in (self._master, *self.workers.values()):
            if process is not None:
                process.kill()
                process.wait()
        deadline = time.monotonic() + START_SECONDS
        while left := [pid for pid, _ in self._processes()]:
            assert time.monotonic() < deadline, f"processes {left} of the cluster do not end"
            for pid in left:
                kill(pid)
            time.sleep(0.05)

    def _spark_class(
        self, name: str, program: Sequence[str], options: Mapping[str, str], *, hidden: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program of Spark, which does not see what is in the folder `hidden`."""
        home = self.folder / name
        environment = {**self._environment(home), "SPARK_HOME": str(self.spark_home), **options}
        environment |= {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS}
        hiding = [] if hidden is None else [*_HIDE, str(hidden)]
        (home / "log").unlink(missing_ok=True)
        with (home / "log").open("wb") as log:
            return subprocess.Popen(
                [*hiding, "bash", self.spark_home / "bin" / "spark-class", *program],
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _environment(self, home: Path) -> dict[str, str]:
        """Nothing of this process but where programs are found."""
        temporary = home / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if key in ("PATH", "JAVA_HOME", "LANG")}
        own = {"HOME": str(home), "TMPDIR": str(temporary), "SPARK_LOCAL_IP": HOST, "SPARK_LOCAL_DIRS": str(temporary)}
        return {**kept, **own, _MARK: self.mark}

    def _await(self, name: str, line: str) -> None:
        log = self.folder / name / "log"
        wait_for(lambda: line in log.read_text("utf-8", "replace"), START_SECONDS, lambda: log.read_text("utf-8"))

    def _processes(self) -> Iterator[tuple[int, str]]:
        """(process id, command) of every process with the mark of this cluster."""
        wanted = f"{_MARK}={self.mark}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name), (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except (OSError, ValueError):  # ended meanwhile
                continue


@contextmanager
def running_cluster(
    folder: Path, python: Path, *, worker_count: int = 2, memory_mib: int = 1024
) -> Iterator[SparkCluster]:
    """A cluster that runs; all its processes are ended in the end."""
    cluster = SparkCluster(folder=folder, python=python, memory_mib=memory_mib)
    try:
        cluster.start(worker_count)
        yield cluster
    finally:
        cluster.stop()


@cache
def can_hide() -> bool:
    """Whether processes here may have mounts of their own."""
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*_HIDE, folder, "true"], capture_output=True, check=False).returncode == 0


def _parent(pid: int) -> int:
    """The process that started a process; 0 once it has ended."""
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def kill(pid: int) -> bool:
    """End a process by SIGKILL; False if it has ended already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def wait_for(holds: Callable[[], bool], seconds: float, describe: Callable[[], str] = str) -> None:
    """Wait until a condition holds; fails the test with a description when it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {describe()[-4000:]}"
        time.sleep(0.1)
