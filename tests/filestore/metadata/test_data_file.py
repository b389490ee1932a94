"""DataFileMeta in its compact JSON form."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings

from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, wall_clock_millis
from tests.support.files.data_files import data_files, plain_file


@settings(deadline=None)
@given(file=data_files)
def test_every_file_is_read_back_as_it_was(file: DataFileMeta) -> None:
    assert DataFileMeta.from_json(json.loads(json.dumps(file.to_json()))) == file


def test_a_plain_file_is_short() -> None:
    text = json.dumps(plain_file("data-5aa7f76e-0000-4000-8000-000000000000-0.parquet").to_json())
    assert len(text) < 250


@pytest.mark.parametrize("change", [{"k": None}, {"k": ["A", "!"]}, {"o": 9}, {"ks": [1]}, {"s": []}])
def test_other_json_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, IndexError)):
        DataFileMeta.from_json(plain_file("x").to_json() | change)


def test_creation_time_is_the_wall_clock() -> None:
    epoch_millis = 1_767_323_045_678
    local = datetime.fromtimestamp(epoch_millis / 1000).astimezone().replace(tzinfo=UTC)
    assert wall_clock_millis(epoch_millis) == round(local.timestamp() * 1000)
