"""A tag is read once a process: its file is known by time and size, once it is old enough."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakelog.filestore.io.fileio import FileEntry
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots import tag_cache
from lakelog.filestore.refs.tags.tags import tags_of, write_tag
from tests.support.tables.small_tables import in_new_process, make_table, rows_of

TAGS = 20


@dataclass(frozen=True)
class CountingFileIO(LocalFileIO):
    """Counts calls."""

    calls: Counter[str] = field(default_factory=Counter, compare=False)

    def read_bytes(self, path: str) -> bytes:
        self.calls["read"] += 1
        return LocalFileIO.read_bytes(self, path)

    def list_entries(self, directory: str) -> list[FileEntry]:
        self.calls["list"] += 1
        return LocalFileIO.list_entries(self, directory)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of tags that are an hour old."""
    table = make_table(tmp_path)
    snapshot = table.write(rows_of(0))
    for number in range(TAGS):
        write_tag(table, f"t{number}", snapshot)
        path = table.paths.tag(f"t{number}")
        hour_ago = Path(path).stat().st_mtime_ns - 3_600_000_000_001
        os.utime(path, ns=(hour_ago, hour_ago))
    return tmp_path / "t"


def test_a_second_look_at_all_tags_reads_none_of_them(folder: Path) -> None:
    counting = CountingFileIO(sync_data=False)
    table = in_new_process(str(folder), counting)
    tag_cache._held.clear()
    counting.calls.clear()
    tags_of(table)
    assert counting.calls == {"list": 1, "read": TAGS}
    counting.calls.clear()
    assert len(tags_of(table)) == TAGS
    assert counting.calls == {"list": 1}


def test_a_replaced_tag_is_read_again(folder: Path) -> None:
    table = in_new_process(str(folder))
    tags_of(table)
    newer = table.write(rows_of(1))
    write_tag(table, "t3", newer, replace=True)
    assert {tag.name: tag.snapshot.id for tag in tags_of(table)}["t3"] == newer.id
