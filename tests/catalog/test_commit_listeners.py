"""Listeners of a catalog: each commit that its handles make, told once, whatever the verb."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, CommitListener, Table
from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])
Told = tuple[str, int, int, str]  # table, identifier, snapshot, kind


class Kept(CommitListener):
    """Keeps what it is told of one table, and fails where it is asked to."""

    def __init__(self, name: str, told: list[Told], *, fails: bool = False) -> None:
        self._name, self._told, self._fails = name, told, fails

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:
        self._told.append((self._name, identifier, snapshot_id, kind))
        if self._fails:
            raise RuntimeError("the listener is broken")


@pytest.fixture
def told() -> list[Told]:
    return []


@pytest.fixture
def catalog(tmp_path: Path, told: list[Told]) -> Catalog:
    return Catalog(tmp_path / "lake", listeners_of=lambda name: [Kept(name, told)])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers), "n": list(numbers)}, schema=SCHEMA)


def make(catalog: Catalog, name: str = "db.t") -> Table:
    return catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"write-only": "true", "bucket": "1"})


def snapshots(table: Table) -> list[Told]:
    """What the files say."""
    name = table.store.name
    found = [(name, one.commit_identifier, one.id, one.commit_kind.value) for one in table.snapshots()]
    return sorted(found, key=lambda one: one[2])


VERBS: dict[str, tuple[Callable[[Table], object], list[str]]] = {
    "write": (lambda table: table.write(rows(3)), ["APPEND"]),
    "overwrite": (lambda table: table.write(rows(3), mode="overwrite"), ["OVERWRITE"]),
    "delete": (lambda table: table.delete("id = 1"), ["APPEND"]),
    "update": (lambda table: table.update({"n": 7}, "id = 1"), ["APPEND"]),
    "merge": (lambda table: table.merge(rows(1, 9)).when_matched_update_all().execute(), ["APPEND"]),
    "compact": (lambda table: table.compact(full=True), ["COMPACT"]),
    "restore": (lambda table: table.restore(snapshot_id=1), ["OVERWRITE"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_tells_of_its_commits_with_their_kinds(catalog: Catalog, told: list[Told], verb: str) -> None:
    table = make(catalog)
    table.write(rows(1))
    table.write(rows(2))
    told.clear()
    run, kinds = VERBS[verb]
    run(table)

    assert told == snapshots(table)[2:]
    assert [(identifier, kind) for _, identifier, _, kind in told] == [(BATCH_COMMIT_IDENTIFIER, one) for one in kinds]


def test_a_compaction_after_a_write_is_told_of_too(catalog: Catalog, told: list[Told]) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    for number in range(3):
        table.write(rows(number))

    assert told == snapshots(table)
    assert "COMPACT" in {kind for _, _, _, kind in told}


def test_a_branch_tells_by_its_own_name(catalog: Catalog, told: list[Told]) -> None:
    table = make(catalog)
    table.write(rows(1))
    table.branches.create("b")
    told.clear()
    table.branch("b").write(rows(2))
    catalog.load_table("db.t$branch_b").write(rows(3))

    assert [one[0] for one in told] == ["db.t$branch_b"] * 2


def test_a_table_may_have_no_listeners(tmp_path: Path, told: list[Told]) -> None:
    catalog = Catalog(tmp_path / "lake", listeners_of={"db.u": [Kept("u", told)]}.get)
    make(catalog).write(rows(1))
    make(catalog, "db.u").write(rows(1))

    assert told == [("u", BATCH_COMMIT_IDENTIFIER, 1, "APPEND")]


def test_an_error_of_a_listener_hides_neither_the_commit_nor_the_next_listener(
    tmp_path: Path, told: list[Told], caplog: pytest.LogCaptureFixture
) -> None:
    pair = [Kept("broken", told, fails=True), Kept("kept", told)]
    catalog = Catalog(tmp_path / "lake", listeners_of=lambda _: pair)
    with caplog.at_level(logging.ERROR, logger="lakelog.filestore"):
        snapshot = make(catalog).write(rows(1))

    assert snapshot.id == 1
    assert [one[0] for one in told] == ["broken", "kept"]
    assert "a listener of the commits of table db.t failed at snapshot 1 (APPEND" in caplog.text


def test_an_error_of_the_function_that_names_listeners_hides_no_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog(tmp_path / "lake", listeners_of={"db.x": ()}.__getitem__)
    with caplog.at_level(logging.ERROR, logger="lakelog.filestore"):
        assert make(catalog).write(rows(1)).id == 1

    assert "the listeners of table db.t were not found at snapshot 1" in caplog.text


def test_what_was_not_committed_is_not_told_of(catalog: Catalog, told: list[Told]) -> None:
    table = make(catalog)
    table.write(rows(1))
    catalog.rename_table("db.t", "db.u")
    with pytest.raises(ConflictError):
        table.write(rows(2))

    assert len(told) == 1


def test_a_pickled_handle_has_no_listeners(catalog: Catalog) -> None:
    files = make(catalog).store

    assert pickle.loads(pickle.dumps(files)).listeners_of is None
