"""Crashes and outages at every I/O call of a commit, then a replay: the batch is there once."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.filestore.table import FileStoreTable
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.tables.small_tables import (
    UNSYNCED,
    commit_batch,
    committed_batches,
    content,
    content_after,
    in_new_process,
    make_table,
)

BEFORE = 3  # batches that are in when the fault comes
MERGES_EACH_TIME = {"manifest.merge-min-count": "2"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a table with a few batches, to be copied."""
    folder = tmp_path_factory.mktemp("template")
    table = make_table(folder, options=MERGES_EACH_TIME)
    for batch in range(BEFORE):
        commit_batch(table, batch)
    return folder


def copy_of(template: Path, folder: Path) -> str:
    return str(shutil.copytree(template, folder) / "t")


def check_once(table: FileStoreTable) -> None:
    """The batch was committed once or not at all, and its replay commits it once."""
    found = committed_batches(table)
    assert found in ([*range(BEFORE)], [*range(BEFORE + 1)])
    assert content(table) == content_after(len(found))
    commit_batch(table, BEFORE)
    assert committed_batches(table) == [*range(BEFORE + 1)]
    assert content(table) == content_after(BEFORE + 1)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before the call", "after the call"])
def test_a_crash_anywhere_commits_the_batch_once_or_not_at_all(
    template: Path, tmp_path: Path, after_effect: bool
) -> None:
    for fails_at in count(1):
        path = copy_of(template, tmp_path / str(fails_at))
        faulty = FaultyFileIO(UNSYNCED, fails_at, after_effect)
        try:
            commit_batch(in_new_process(path, faulty), BEFORE)
        except InjectedCrash:
            check_once(in_new_process(path))
            continue
        assert fails_at > 20  # every call of a whole commit has failed once
        return


@pytest.mark.parametrize("after_effect", [False, True], ids=["before the call", "after the call"])
def test_an_outage_anywhere_ends_in_one_commit_or_an_error(template: Path, tmp_path: Path, after_effect: bool) -> None:
    for fails_at in count(1):
        path = copy_of(template, tmp_path / str(fails_at))
        faulty = FaultyFileIO(UNSYNCED, fails_at, after_effect, is_outage=True)
        try:
            snapshot = commit_batch(in_new_process(path, faulty), BEFORE)
        except UnavailableError:
            pass
        else:
            assert snapshot is not None  # an acknowledged commit is there
            assert committed_batches(in_new_process(path)) == [*range(BEFORE + 1)]
        check_once(in_new_process(path))
        if not faulty.has_failed:
            return


def test_a_crash_anywhere_in_a_compaction_changes_no_rows(template: Path, tmp_path: Path) -> None:
    for fails_at in count(1):
        path = copy_of(template, tmp_path / str(fails_at))
        try:
            in_new_process(path, FaultyFileIO(UNSYNCED, fails_at)).compact(full=True)
        except InjectedCrash:
            survivor = in_new_process(path)
            assert content(survivor) == content_after(BEFORE)
            survivor.compact(full=True)
            assert content(survivor) == content_after(BEFORE)
            continue
        assert fails_at > 20
        return
