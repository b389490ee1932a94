"""A warehouse with lineage, and what its system tables hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from tests.support.lineage.lineage_records import LINEAGE_ON


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A warehouse whose lineage is recorded."""
    return Catalog(tmp_path / "lake", options=LINEAGE_ON)
