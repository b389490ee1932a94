"""The verbs of a table: one object for what is done to it, with or without a log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.tables import files_of_table
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.verbs import delete, drop_partitions, rescale
from tests.support.tables.small_tables import altered_by_others

COLUMNS = [pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)]
SCHEMA = pa.schema(COLUMNS)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four commits of one row each, in two partitions."""
    made = Catalog(tmp_path).create_table(
        "db.t", schema=SCHEMA, primary_keys=["day", "id"], partition_keys=["day"], options={"write-only": "true"}
    )
    for number in range(4):
        made.write(rows((f"d{number % 2}", number)))
    return made


def rows(*values: tuple[str, int]) -> pa.Table:
    days, ids = zip(*values, strict=True)
    return pa.table({"day": days, "id": ids}, schema=SCHEMA)


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def logged(table: Table) -> Table:
    """The same table with options that name a log, which is never asked."""
    options = {"log.system": "kafka", "log.topic": "t", "log.topic-id": "i", "log.kafka.bootstrap.servers": "nowhere:1"}
    (Path(table.path) / "schema/schema-0").write_text(altered_by_others(table.schema, **options))
    return open_table(table.path)


def test_a_table_overwrites_the_partitions_that_meet_a_condition(table: Table) -> None:
    table.write(rows(("d1", 7)), mode="overwrite", where="day = 'd1'")
    assert ids(table) == [0, 2, 7]


def test_row_kinds_say_what_is_deleted(table: Table) -> None:
    table.write(rows(("d0", 0)), row_kinds=pa.array([3], pa.int8()))
    assert ids(table) == [1, 2, 3]


def test_a_table_compacts_what_is_due_unless_everything_is_asked_for(table: Table) -> None:
    assert table.compact() is None
    merged = table.compact(full=True)
    assert merged is not None
    assert table.snapshot() == merged


def test_a_table_compacts_the_partitions_that_meet_a_condition(table: Table) -> None:
    table.write(rows(("d0", 0), ("d1", 1)))

    def waiting() -> set[str]:
        return {str(file.partition["day"]) for file in files_of_table(*table.store.travelled()) if file.level == 0}

    assert waiting() == {"d0", "d1"}
    assert table.compact(full=True, where="day = 'd1'") is not None
    assert waiting() == {"d0"}
    assert table.compact(full=True, where="day = 'no such day'") is None
    with pytest.raises(InvalidRequestError, match="partition columns"):
        table.compact(where="id = 1")


def test_a_table_expires_snapshots(table: Table) -> None:
    assert table.upkeep.expire_snapshots().snapshot_ids == ()
    expired = table.upkeep.expire_snapshots(retain_min=1, retain_max=2)
    assert (expired.snapshot_ids, expired.log_starts) == ((1, 2), {})
    assert [snapshot.id for snapshot in table.snapshots()] == [3, 4]
    assert ids(table) == [0, 1, 2, 3]


def test_a_table_deletes_the_rows_that_meet_a_condition(table: Table) -> None:
    deleted = table.delete("id >= 2")
    assert deleted == table.snapshot(snapshot_id=5)
    assert ids(table) == [0, 1]
    assert table.delete("id >= 2") is None
    assert sorted(table.to_arrow(snapshot_id=4)["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_table_drops_partitions(table: Table) -> None:
    assert table.upkeep.drop_partitions("day = 'd1'") is not None
    assert ids(table) == [0, 2]
    assert table.upkeep.drop_partitions("day = 'd1'") is None


def test_a_table_gets_other_buckets(table: Table) -> None:
    assert table.upkeep.rescale(3).schema.bucket_count == 3
    assert ids(open_table(table.path)) == [0, 1, 2, 3]


def test_a_table_finds_orphan_files_and_deletes_them_when_asked(table: Table) -> None:
    lost = Path(table.path) / "manifest" / "manifest-lost-0"
    lost.write_bytes(b"lost")
    os.utime(lost, (1_700_000_000, 1_700_000_000))
    assert [file.path for file in table.upkeep.remove_orphan_files(older_than="2 h").files] == [str(lost)]
    assert lost.exists()
    table.upkeep.remove_orphan_files(dry_run=False)
    assert not lost.exists()


def test_a_table_moves_and_deletes_its_consumers(table: Table) -> None:
    table.consumers.reset("reader", 2)
    assert [(found.consumer_id, found.next_snapshot) for found in table.consumers.list()] == [("reader", 2)]
    table.consumers.delete("reader")
    assert table.consumers.list() == []


def test_a_table_finds_a_commit(table: Table) -> None:
    newest = table.snapshot()
    assert newest is not None
    assert table.upkeep.find_commit(str(newest.uuid)).snapshot_id == 4


def test_a_table_without_a_log_gets_a_new_identity(table: Table) -> None:
    renewed = table.upkeep.new_identity()
    assert renewed.uuid != table.uuid
    assert open_table(table.path).uuid == renewed.uuid
    assert ids(renewed) == [0, 1, 2, 3]


def test_a_table_gives_its_rows_as_a_pandas_frame(table: Table) -> None:
    frame = table.to_pandas(columns=["id"], where="day = 'd1'")
    assert sorted(frame["id"]) == [1, 3]


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.store.write(rows(("d0", 9))),
        lambda table: delete(table.store, "id = 0"),
        lambda table: drop_partitions(table.store, "day = 'd0'"),
        lambda table: rescale(table.store, 3),
    ],
)
def test_what_a_log_would_miss_is_refused(table: Table, verb: Callable[[Table], object]) -> None:
    with pytest.raises(InvalidRequestError, match=r"must go through the log too.*lakelog\.spark"):
        verb(logged(table))
    assert ids(table) == [0, 1, 2, 3]


def test_reprs_are_short(table: Table) -> None:
    catalog = Catalog(table.warehouse)
    first = table.snapshot(snapshot_id=1)
    assert first is not None
    assert repr(catalog) == f"Catalog({table.warehouse!r})"
    assert repr(table) == f"Table('db.t', path={table.path!r})"
    assert repr(replace(first, time_millis=1_769_860_800_500)) == (
        "Snapshot(id=1, APPEND, 2026-01-31 12:00:00.500 UTC, schema 0)"
    )
    assert repr(replace(first, time_millis=2**62)) == f"Snapshot(id=1, APPEND, {2**62} ms, schema 0)"
    assert repr(table.schema) == (
        "TableSchema(id=0, day STRING NOT NULL, id BIGINT NOT NULL, primary_keys=['day', 'id'], partition_keys=['day'])"
    )


def test_notebooks_show_html_in_which_nothing_is_a_tag(tmp_path: Path) -> None:
    hostile = "<script>alert('x')</script> & \"<b>\""
    schema = pa.schema([pa.field(hostile, pa.int64(), metadata={"comment": hostile}), pa.field("id", pa.int64())])
    catalog = Catalog(tmp_path / "<i>lake")
    table = catalog.create_table("db.t", schema=schema, primary_keys="id", comment=hostile)
    table.write(pa.table({hostile: [1], "id": [2]}))
    first = table.snapshot()
    assert first is not None
    snapshot = replace(first, commit_user=hostile)
    for html in (catalog._repr_html_(), table._repr_html_(), table.schema._repr_html_(), snapshot._repr_html_()):
        assert html.startswith("<div><strong>")
        assert "<table>" in html
        assert not {"<script>", "<b>", "<i>"} & set(re.findall(r"<\w+>", html))
        assert len(html) < 3_000
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;&lt;b&gt;&quot;" in table._repr_html_()
    assert "BIGINT NOT NULL" in table._repr_html_()
    assert ">db</td>" in catalog._repr_html_()
    assert "does not exist" in Catalog(tmp_path / "no")._repr_html_()


def test_html_of_a_wide_table_is_cut() -> None:
    columns = pa.schema([(f"c{number}", pa.int32()) for number in range(500)])
    html = build_schema(columns)._repr_html_()
    assert "... (500 in all)" in html
    assert "c99<" in html
    assert "c100<" not in html


def test_a_table_is_read_by_snapshot_and_by_timestamp(table: Table) -> None:
    second = table.snapshot(snapshot_id=2)
    assert second is not None
    newest = max(one.id for one in table.snapshots() if one.time_millis <= second.time_millis)
    then = datetime.fromtimestamp(second.time_millis / 1000, UTC)
    for timestamp in (then, then.isoformat(), second.time_millis):
        assert table.snapshot(timestamp=timestamp) == table.snapshot(snapshot_id=newest)
        assert sorted(table.to_arrow(timestamp=timestamp)["id"].to_pylist()) == list(range(newest))
    with pytest.raises(InvalidRequestError, match=r"timestamp is the float 1\.5"):
        table.to_arrow(timestamp=1.5)  # type: ignore[arg-type]  # what the test is about
