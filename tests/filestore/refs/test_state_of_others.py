"""What lakelog knows of a table stays known after upkeep by other engines, and a rollback to a snapshot of theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.origins.cleared_rows import Cleared
from lakelog.filestore.metadata.origins.unseen_changes import UnseenChanges, unseen_of
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.identity import StateLostError
from lakelog.filestore.metadata.tables.state_keeping import StateKeeper
from lakelog.filestore.refs import create_branch
from lakelog.filestore.refs.tags.tags import write_tag
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots, merge_changes, restore, rollback
from tests.support.tables.foreign_engine import expire_as_others_do, foreign_snapshot
from tests.support.tables.small_tables import UNSYNCED, commit_batch, in_new_process, make_table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def table_of(folder: Path, *numbers: int) -> FileStoreTable:
    """A table without primary key, in which a row that is merged twice is there twice, and its branch `b`."""
    table = FileStoreTable.create(f"{folder}/t", build_schema(SCHEMA, options={"bucket": "-1"}), UNSYNCED)
    put(table, *numbers)
    create_branch(table, "b")
    return table


def put(table: FileStoreTable, *numbers: int) -> None:
    table.write(pa.table({"id": list(numbers)}, SCHEMA))


def ids(table: FileStoreTable) -> list[int]:
    return sorted(in_new_process(table.path).to_arrow()["id"].to_pylist())


def newest(table: FileStoreTable) -> Snapshot:
    found = table.snapshots.latest()
    assert found is not None
    return found


def begin_at(table: FileStoreTable, snapshot_id: int) -> None:
    """Let the snapshots before one expire."""
    living = [number for number in table.snapshots.ids() if number >= snapshot_id]
    retention = Retention(count_min=len(living), count_max=len(living), age_millis=0, limit=100)
    expire_snapshots(table, retention=retention)
    assert table.snapshots.ids() == living


def test_a_merge_is_known_after_another_engine_compacted_and_expired(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    put(table.on_branch("b"), 2)
    merge_changes(table, "b")
    for number in (3, 4):
        foreign_snapshot(table)
        expire_as_others_do(table)
        put(table.on_branch("b"), number)
        assert merge_changes(in_new_process(table.path), "b").inserted == 1
    assert ids(table) == [1, 2, 3, 4]


def test_a_merge_of_which_nothing_is_known_any_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, 1)
    put(table.on_branch("b"), 2)
    monkeypatch.setattr(StateKeeper, "_put", lambda *_what: None)
    merge_changes(table, "b")
    foreign_snapshot(table)
    expire_as_others_do(table)
    put(table.on_branch("b"), 3)
    with pytest.raises(StateLostError, match="has lost lakelog's state"):
        merge_changes(in_new_process(table.path), "b")
    assert ids(table) == [1, 2]


def test_a_rollback_hides_no_loss_of_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of another engine gets no properties from one that has none: it would look like one of lakelog."""
    table = table_of(tmp_path, 1)
    put(table.on_branch("b"), 2)
    monkeypatch.setattr(StateKeeper, "_put", lambda *_what: None)
    merge_changes(table, "b")
    target = foreign_snapshot(table)
    expire_as_others_do(table)
    foreign_snapshot(table)
    rollback(table, snapshot_id=target.id)
    assert newest(in_new_process(table.path)) == target
    with pytest.raises(StateLostError, match="has lost lakelog's state"):
        merge_changes(in_new_process(table.path), "b")
    assert ids(table) == [1, 2]


def rolled_back_to_another_engines(table: FileStoreTable, kind: CommitKind = CommitKind.COMPACT) -> Snapshot:
    """Behind a snapshot of another engine and one of lakelog the first expires its own ones, then the second goes."""
    target = foreign_snapshot(table, kind)
    put(table, 9)
    begin_at(table, target.id)
    rollback(table, snapshot_id=target.id)
    return target


def test_a_merge_is_known_after_a_rollback_to_a_snapshot_of_another_engine(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    put(table.on_branch("b"), 2)
    merge_changes(table, "b")
    rolled_back_to_another_engines(table)
    put(table.on_branch("b"), 3)
    assert merge_changes(in_new_process(table.path), "b").inserted == 1
    assert ids(table) == [1, 2, 3]


def test_a_rollback_over_a_merge_after_which_the_one_before_is_not_known_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    target = foreign_snapshot(table)
    put(table.on_branch("b"), 2)
    merge_changes(table, "b")
    begin_at(table, target.id)
    with pytest.raises(InvalidRequestError, match="before the merge in snapshot 3"):
        rollback(table, snapshot_id=target.id)
    assert ids(table) == [1, 2]


def test_writers_are_not_rewound_to_what_is_not_known(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    target = foreign_snapshot(table)
    commit_batch(table, 1)
    begin_at(table, target.id)
    for verb in (rollback, restore):
        with pytest.raises(InvalidRequestError, match=r"the last batch of each writer is not known.*Leave rewind"):
            verb(table, snapshot_id=target.id, rewind_writers=True)
    rollback(table, snapshot_id=target.id)
    assert commit_batch(in_new_process(table.path), 1) is None


def test_overwrites_are_known_after_a_rollback_to_a_snapshot_of_another_engine(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    table.write(pa.table({"id": [1]}, SCHEMA), mode="overwrite")
    overwrite = newest(table)
    target = rolled_back_to_another_engines(table, CommitKind.OVERWRITE)
    put(table, 5)
    properties = newest(in_new_process(table.path)).properties
    assert unseen_of(properties) == (
        UnseenChanges(overwrite.id, overwrite.id, overwrite.uuid),
        UnseenChanges(target.id, target.id, target.uuid),
    )
    assert [event.snapshot_id for event in Cleared.parsed(properties.get(PropertyKey.CLEARED))] == [overwrite.id]


def test_what_came_since_is_not_known_after_a_rollback_to_a_snapshot_of_another_engine(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    target = foreign_snapshot(table)
    table.write(pa.table({"id": [7]}, SCHEMA), mode="overwrite")
    begin_at(table, target.id)
    rollback(table, snapshot_id=target.id)
    properties = newest(in_new_process(table.path)).properties
    assert unseen_of(properties) == ()
    assert Cleared.parsed(properties.get(PropertyKey.CLEARED)) == []
    assert ids(table) == [1]


@pytest.mark.parametrize("has_expired", [False, True])
def test_a_rollback_to_a_snapshot_whose_columns_another_engine_has_changed_is_readable(
    tmp_path: Path, has_expired: bool
) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    schema = replace(table.schema, id=1)
    fields = json.loads(Path(table.paths.schema(0)).read_text())
    own = {key for key in fields if key.startswith("lakelog")}
    written = {key: value for key, value in fields.items() if key not in own} | {"id": 1}
    Path(table.paths.schema(1)).write_text(json.dumps(written))
    target = foreign_snapshot(table)
    Path(table.paths.snapshot(target.id)).write_text(replace(target, schema_id=schema.id).to_json())
    commit_batch(in_new_process(table.path), 1)
    if has_expired:
        begin_at(table, target.id)
    rollback(in_new_process(table.path), snapshot_id=target.id)
    opened = in_new_process(table.path)
    assert newest(opened).schema_id == schema.id
    assert opened.to_arrow().num_rows
    assert commit_batch(opened, 1) is None


def test_an_older_tag_keeps_its_files_after_a_restore_that_another_engine_has_expired(tmp_path: Path) -> None:
    """A tag between does not have the files that came back: an expiry has to ask those before it, too."""
    table = table_of(tmp_path, 1)
    write_tag(table, "first", newest(table))
    table.write(pa.table({"id": [2]}, SCHEMA), mode="overwrite")
    write_tag(table, "between", newest(table))
    restore(table, tag="first")
    for _ in range(2):
        foreign_snapshot(table)
        expire_as_others_do(table)
    table.write(pa.table({"id": [3]}, SCHEMA), mode="overwrite")
    put(table, 4)
    begin_at(table, newest(table).id)
    assert in_new_process(table.path).to_arrow(tag="first")["id"].to_pylist() == [1]
