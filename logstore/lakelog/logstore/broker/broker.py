"""The embedded broker: a real Apache Kafka in a process of its own, one per data folder, on loopback only.

A folder's broker lives in `<folder>/.lakelog/broker/`:

    start.lock     held while a process starts or stops the broker
    running.lock   held by the broker's process itself, from before its first instruction until the kernel ends it,
                   so a broker that was killed, or whose process id another process has now, is never taken for alive
    broker.pid     its process id; holds only while running.lock is held
    endpoint.json  its ports and cluster id, kept over restarts
    data/          what Kafka stores
    broker.log     what the process printed; the start before it in broker.log.1
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakelog.common.errors import InvalidRequestError, UnavailableError
from lakelog.logstore.broker.broker_config import (
    HOST,
    LOG4J_PROPERTIES,
    Endpoint,
    choose_endpoint,
    controller_properties,
    is_port_free,
    server_properties,
)
from lakelog.logstore.broker.broker_files import check_no_links, check_way, log_tail, open_new, read_pid, write_new
from lakelog.logstore.broker.file_lock import exclusive_lock, is_locked, wait_until_free
from lakelog.logstore.broker.programs import JavaCommand, kafka_command

_POLL_SECONDS = 0.05
_STOP_TIMEOUT_SECONDS = 30.0
_BURIAL_SECONDS = 6.0
_FENCED = re.compile(r"Fencing broker \d+ at epoch")
_CLEAN_END = ".kafka_cleanshutdown"  # Kafka leaves it in the data folder when it is stopped, not killed
# The inner shell becomes Java, so its process id is Java's; the outer one ends at once, so Java is not a child process.
_LAUNCH = """/bin/sh -C -c 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@"' "$@" &"""  # -C: follows no link


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """A running broker."""

    folder: Path
    bootstrap_servers: str
    pid: int
    data_dir: Path
    log_path: Path


class EmbeddedBroker:
    """The broker of one folder. Several processes may use it; each of them may start and stop it."""

    def __init__(
        self,
        folder: str | Path,
        *,
        environ: Mapping[str, str] | None = None,
        start_timeout_seconds: float = 60.0,
        java_options: Sequence[str] | None = None,
    ) -> None:
        """Name the broker of `folder`; does no I/O. `environ` is os.environ by default.

        `java_options` are those of its JVM, by default the ones that use a class archive.
        """
        self.folder = Path(folder).absolute()
        self._environ = os.environ if environ is None else environ
        self._timeout_seconds = start_timeout_seconds
        self._java_options = java_options
        self._home = self.folder / ".lakelog" / "broker"
        self._start_lock = self._home / "start.lock"
        self._running_lock = self._home / "running.lock"
        self._pid_path = self._home / "broker.pid"
        self._endpoint_path = self._home / "endpoint.json"
        self._log4j_path = self._home / "log4j2.properties"
        self._data_dir = self._home / "data"
        self._log_path = self._home / "broker.log"

    def start(self, *, port: int | None = None) -> BrokerInfo:
        """Start the broker, unless it runs already, and wait until it serves.

        It outlives the calling process, and gets no Ctrl-C. With `port` None it takes the port of the last start, or a
        free one at the first start. Raises UnavailableError, with the end of the broker's log, when it does not serve
        in time, and CorruptDataError for a link in its folder.
        """
        check_way(self.folder, self._home)
        with exclusive_lock(self._start_lock, timeout_seconds=self._patience(), purpose="start of the broker"):
            info = self._wait_until_serving() if is_locked(self._running_lock) else None
            if info is None:  # None also while it is being killed
                self._launch(self._pick_endpoint(port))
                info = self._wait_until_serving()
            if info is None:
                raise UnavailableError(
                    f"the Kafka broker of {self.folder} ended while it started; {log_tail(self._log_path)}"
                )
        if port not in (None, int(info.bootstrap_servers.rpartition(":")[2])):
            raise InvalidRequestError(
                f"the broker of {self.folder} runs at {info.bootstrap_servers}, expected port {port};"
                " stop it first, or leave the port out"
            )
        return info

    def stop(self) -> bool:
        """Stop the broker and wait for its end; False when none was running. Its data and ports stay."""
        check_way(self.folder, self._home)
        if not self._home.is_dir():
            return False
        with exclusive_lock(self._start_lock, timeout_seconds=self._patience(), purpose="start or stop of the broker"):
            if not is_locked(self._running_lock):
                return False
            self._end_process(self._read_pid())
            return True

    def status(self) -> BrokerInfo | None:
        """The running broker, which may not serve yet; None when none runs."""
        endpoint = Endpoint.read(self._endpoint_path)
        if endpoint is None or not is_locked(self._running_lock):
            return None
        return self._info(endpoint, self._read_pid())

    def abort_transaction(self, topic: str, partition: int, first_offset: int) -> str | None:
        """Abort the open transaction that begins at `first_offset`, whose writer is not asked; its next call fails.

        The answer is what Kafka's tool says if it fails. Source: KIP-664, `kafka-transactions.sh abort`.
        """
        info = self.start()
        command = kafka_command(self._environ, self._log4j_path, run_once)
        arguments = ["--bootstrap-server", info.bootstrap_servers, "abort", "--topic", topic]
        arguments += ["--partition", str(partition), "--start-offset", str(first_offset)]
        return self._failure_of(command("org.apache.kafka.tools.TransactionsCommand", *arguments))

    def _failure_of(self, command: Sequence[str]) -> str | None:
        """What a program of Kafka's prints if it fails."""
        answer = subprocess.run(
            command, env=dict(self._environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        return f"{answer.stdout}{answer.stderr}".strip() if answer.returncode else None

    def _patience(self) -> float:
        return 2 * self._timeout_seconds + _STOP_TIMEOUT_SECONDS

    def _pick_endpoint(self, port: int | None) -> Endpoint:
        kept = Endpoint.read(self._endpoint_path)
        rng = random.Random()
        if kept is None:
            chosen = choose_endpoint(rng, port=port)
        elif port not in (None, kept.port) or not is_port_free(kept.controller_port):
            chosen = choose_endpoint(rng, port=port or kept.port, cluster_id=kept.cluster_id)
        else:
            chosen = kept
        if not is_port_free(chosen.port):
            raise UnavailableError(
                f"port {chosen.port} of {HOST}, which the broker of {self.folder} uses, is taken by another process;"
                f" end that process, or move the broker: `lakelog broker start {self.folder} --port N`"
            )
        return chosen

    def _launch(self, endpoint: Endpoint) -> None:
        check_no_links(self.folder, self._home)
        write_new(self._log4j_path, LOG4J_PROPERTIES)
        command = kafka_command(self._environ, self._log4j_path, run_once)
        if not (self._data_dir / "meta.properties").is_file():
            self._format(command, endpoint)
        elif not (self._data_dir / _CLEAN_END).exists():
            self._fence_killed_broker(command, endpoint)
        write_new(properties := self._home / "server.properties", server_properties(endpoint, self._data_dir))
        endpoint.write(self._endpoint_path)
        self._pid_path.unlink(missing_ok=True)
        self._pid_path.with_suffix(".pid.new").unlink(missing_ok=True)
        if self._log_path.exists():
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        with (
            exclusive_lock(self._running_lock, timeout_seconds=5.0, purpose="the broker itself") as descriptor,
            open_new(self._log_path) as log,
        ):
            served = command("kafka.Kafka", properties, options=self._java_options)
            subprocess.run(
                ["/bin/sh", "-c", _LAUNCH, "sh", self._pid_path, *served],
                cwd=self._home,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(descriptor,),
                start_new_session=True,
                check=True,
            )

    def _fence_killed_broker(self, command: JavaCommand, endpoint: Endpoint) -> None:
        """Run the controller alone until it has fenced the killed broker, before its successor starts.

        A successor takes the old broker's place in the metadata until the old session ends. Meanwhile it finishes the
        transactions whose commit was answered but whose markers were not written yet. When the session ends it takes
        their partitions for deleted and drops the markers: these records, and all after them, would stay hidden forever
        (Kafka 4.3.1, `TransactionMarkerChannelManager`; docs/rfcs/0007).
        """
        write_new(properties := self._home / "controller.properties", controller_properties(endpoint, self._data_dir))
        log_path = self._log_path.with_suffix(".log.0")
        with (
            exclusive_lock(self._running_lock, timeout_seconds=5.0, purpose="the broker itself") as descriptor,
            open_new(log_path) as log,
            subprocess.Popen(
                command("kafka.Kafka", properties),
                cwd=self._home,
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(descriptor,),
                start_new_session=True,
            ) as controller,
        ):
            try:
                write_new(self._pid_path, f"{controller.pid}\n")
                deadline = time.monotonic() + _BURIAL_SECONDS
                while controller.poll() is None and time.monotonic() < deadline:
                    if _FENCED.search(log_path.read_text("utf-8", errors="replace")):
                        break
                    time.sleep(_POLL_SECONDS)
            finally:  # also after Ctrl-C, which the process does not get
                controller.terminate()
        self._pid_path.unlink()

    def _format(self, command: JavaCommand, endpoint: Endpoint) -> None:
        """Create Kafka's empty data folder, which gets its final name when it is complete."""
        unfinished = self._home / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        properties = self._home / "format.properties"
        write_new(properties, server_properties(endpoint, unfinished))
        arguments = ("format", "--cluster-id", endpoint.cluster_id, "--config", properties)
        failure = self._failure_of(command("kafka.tools.StorageTool", *arguments))
        if failure is not None:
            raise UnavailableError(f"Kafka cannot make its data folder {unfinished}: {failure}")
        unfinished.rename(self._data_dir)
        properties.unlink()

    def _wait_until_serving(self) -> BrokerInfo | None:
        """Wait until the broker serves; None when it ended before."""
        deadline = time.monotonic() + self._timeout_seconds
        while time.monotonic() < deadline:
            if not is_locked(self._running_lock):
                return None
            endpoint = Endpoint.read(self._endpoint_path)
            if endpoint is not None and endpoint.serves():
                return self._info(endpoint, self._read_pid())
            time.sleep(_POLL_SECONDS)
        raise UnavailableError(
            f"the Kafka broker of {self.folder} did not answer within {self._timeout_seconds:g} s;"
            f" `lakelog broker stop {self.folder}` ends it; {log_tail(self._log_path)}"
        )

    def _end_process(self, pid: int) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            os.kill(pid, how)
            if wait_until_free(self._running_lock, timeout_seconds=_STOP_TIMEOUT_SECONDS):
                return
        raise UnavailableError(f"the Kafka broker of {self.folder}, process {pid}, does not end")

    def _read_pid(self) -> int:
        """The process that holds running.lock. The process writes its id before anything else."""
        deadline = time.monotonic() + 5.0
        while True:
            try:
                return read_pid(self._pid_path)
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"a process holds {self._running_lock} and {self._pid_path} is missing; end that process"
                    ) from None
                time.sleep(_POLL_SECONDS)

    def _info(self, endpoint: Endpoint, pid: int) -> BrokerInfo:
        return BrokerInfo(
            folder=self.folder,
            bootstrap_servers=endpoint.bootstrap_servers,
            pid=pid,
            data_dir=self._data_dir,
            log_path=self._log_path,
        )


def run_once(folder: Path, java_options: Sequence[str], *, environ: Mapping[str, str] | None = None) -> None:
    """Start a broker in a folder, and stop it."""
    broker = EmbeddedBroker(folder, environ=environ, java_options=java_options)
    broker.start()
    broker.stop()
