"""The oldest versions that the project allows do what the newest ones do: tests of each part pass with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = (
    "tests/common",
    "tests/filestore/formats",
    "tests/filestore/data",
    "tests/filestore/merge",
    "tests/filestore/read",
    "tests/filestore/write",
    "tests/filestore/compact",
    "tests/filestore/predicate",
    "tests/filestore/refs",
    "tests/filestore/io",
    "tests/logstore",
    "tests/lineage",
    "tests/catalog",
    "tests/cli",
    "tests/spark",
    "tests/integration/spark/test_spark_source.py",
)


@pytest.fixture(scope="module")
def oldest() -> Path:
    """The Python of an environment with these versions."""
    subprocess.run([sys.executable, ROOT / "scripts" / "setup.py", "lowest"], check=True, timeout=600)
    return ROOT / ".venvs" / "lowest" / "bin" / "python"


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", PARTS)
def test_the_oldest_versions_pass(part: str, oldest: Path) -> None:
    command = [str(oldest), "-m", "pytest", "-q", "-n", "0", "-m", "not full", "-p", "no:cacheprovider", part]
    environment = {**os.environ, "PYSPARK_PYTHON": str(oldest)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
