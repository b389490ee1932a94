"""A cluster for the tests of a process: it takes ten seconds to start, and a driver on it twenty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import python_of
from tests.support.servers.cluster_world import ClusterWorld, running_world
from tests.support.servers.spark_cluster import installed_wheel


@pytest.fixture(scope="session")
def cluster_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it requires, and nothing else."""
    return installed_wheel(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, cluster_python: Path) -> Iterator[ClusterWorld]:
    """Two workers of one core each, an object store and a Kafka."""
    with running_world(tmp_path_factory.mktemp("world"), cluster_python, python_of("moto")) as made:
        yield made
