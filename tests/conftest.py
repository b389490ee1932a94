"""What every test may ask for, and the choice between the gate and all tests."""

from __future__ import annotations

import decimal
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.examples import EXAMPLES_VARIABLE, NIGHT_VARIABLE, examples, leave_to_the_night
from tests.support.processor_time import ProcessorTime
from tests.support.record import RunRecord, keep_names, record_of_full, without_passed
from tests.support.servers.hdfs_server import Hdfs, running_hdfs
from tests.support.servers.kafka import docker_answers, running_kafka
from tests.support.servers.s3_server import S3Server, running_s3
from tests.support.servers.secure_kafka import SecureKafka, secure_kafka
from tests.support.servers.spark_archive import OPTIONS_VARIABLE, SHARE_DAEMONS_VARIABLE, start_options
from tests.support.servers.wheel import Wheel, unpacked_wheel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
WORKER_IMPORTS = ROOT / "tests" / "support" / "worker_imports"
_SHARED = {"spark", "bootstrap_servers"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long tests too, those marked `full`")
    parser.addoption("--nightly", action="store_true", help="run all tests, those marked `nightly` too")
    parser.addoption("--record", help="a file of the tests that have passed: they are left out next time")


def pytest_configure(config: pytest.Config) -> None:
    """The gate tries the same few examples each time; `--full` looks for new ones. Every Spark below starts fast."""
    config.option.full = config.option.full or config.option.nightly
    if hasattr(config, "workerinput"):
        config.option.record = config.workerinput.get("record")
    else:  # xdist's processes inherit the variables
        os.environ[OPTIONS_VARIABLE] = start_options()
        _put_on_path(ROOT)  # Spark's workers import what strikes at a step of the protocol
        if config.option.full and not config.option.record and not config.option.collectonly:
            config.option.record = str(record_of_full(ROOT))
        if config.getoption("--record"):
            config.pluginmanager.register(RunRecord(Path(config.getoption("--record"))))
    if Path("/proc/self/stat").exists():
        config.pluginmanager.register(ProcessorTime())
    if docker_answers():  # its client library leaves sockets open
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
    if not config.getoption("--full"):
        os.fsync = _no_fsync
    _import_before_fork()
    os.environ[EXAMPLES_VARIABLE] = "1" if config.getoption("--full") else "0.5"
    os.environ[NIGHT_VARIABLE] = "1" if config.getoption("--nightly") else ""
    settings.register_profile("gate", derandomize=True, deadline=None, max_examples=examples(50))
    settings.register_profile("full", deadline=None)
    settings.load_profile("full" if config.getoption("--full") else "gate")


def _no_fsync(fd: object) -> None:
    """What the gate does to make files durable: no test has a power failure, and a killed process loses no write."""


def _import_before_fork() -> None:
    """Spark's Python daemons import what their workers need before they fork them: `sitecustomize` of that folder.

    The sessions of one Spark have them together: Spark never ends those of a session, and hundreds took all memory.
    """
    os.environ[SHARE_DAEMONS_VARIABLE] = "1"
    _put_on_path(WORKER_IMPORTS)


def _put_on_path(folder: Path) -> None:
    """Let the processes that tests start, and xdist's, import from a folder."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), *paths)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is too long for this run; a test that is named by its id runs all the same.

    What shares a Spark or a broker comes first: few of the processes start one, and the end is short tests that balance
    them.
    """
    leave_to_the_night(items)
    items.sort(key=lambda item: _SHARED.isdisjoint(getattr(item, "fixturenames", ())))
    is_named = any("::" in argument for argument in config.args)
    for level in ("full", "nightly"):
        if not (config.getoption(f"--{level}") or level in config.getoption("-m") or is_named):
            long = [item for item in items if item.get_closest_marker(level)]
            items[:] = [item for item in items if not item.get_closest_marker(level)]
            config.hook.pytest_deselected(items=long)
    if config.getoption("--record"):
        record = Path(config.getoption("--record"))
        if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":  # each of the processes has all tests
            keep_names(record, items)
        items[:], passed = without_passed(record, items)
        config.hook.pytest_deselected(items=passed)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: collections of garbage between tests need not look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def clients_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kafka's clients in cycles wait for the collector: the threads of hundreds took a whole core."""
    yield
    if request.node.get_closest_marker("integration"):
        writers = sys.modules.get("tests.support.logs.local_writer")
        if writers is not None:
            writers.close_kept_producers()
        gc.collect()


@pytest.fixture(autouse=True)
def no_decimal_is_rounded_by_default() -> Iterator[None]:
    """Python's decimal context keeps 28 digits, columns have 38: whoever calculates names a context of their own."""
    with decimal.localcontext() as context:
        context.traps[decimal.Inexact] = True
        yield


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Kafka for the whole session. Topics are shared: give them names of their own."""
    with running_kafka(tmp_path_factory.mktemp("kafka")) as servers:
        yield servers


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A Kafka with TLS, passwords and rights for the whole session."""
    with secure_kafka(tmp_path_factory.mktemp("secure")) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """The wheel of this checkout, as users have it."""
    return unpacked_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server for the whole session. Each test makes a bucket of its own."""
    with running_s3(python_of("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS for the whole session. Each test takes a folder of its own."""
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as started:
        yield started


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One Spark for all tests of this process; it ends with it."""
    from tests.support.servers.spark import make_session  # noqa: PLC0415 - takes seconds, and few tests want it

    return make_session()


@pytest.fixture(scope="session")
def pypaimon_python() -> Path:
    """The Python that has pypaimon, the reader that tests compare with; `scripts/test` makes it."""
    return python_of("pypaimon")


def python_of(name: str) -> Path:
    """The Python of one of the environments beside `.venv`."""
    python = ROOT / ".venvs" / name / "bin" / "python"
    if not python.exists():
        pytest.fail(f"{python} is missing; `{sys.executable} scripts/setup.py {name}` makes it")
    return python
