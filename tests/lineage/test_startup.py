"""Where a new job starts, beside jobs that read the same tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import NotFoundError
from lakelog.filestore.io.location import Location
from lakelog.lineage.answers.consistent import NotConsistentError
from lakelog.lineage.answers.startup import made_from_any, startup_snapshots
from lakelog.spark.source.batch.group_streams import start_beside
from tests.support.lineage.lineage_jobs import StreamJob

Make = Callable[[str], Table]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def make(catalog: Catalog) -> Make:
    return lambda name: catalog.create_table(
        f"db.{name}", schema=pa.schema({"id": pa.int64()}), options={"bucket": "1", "write-only": "true"}
    )


def grow(table: Table, times: int = 1) -> None:
    for number in range(times):
        table.write(pa.table({"id": pa.array([number], pa.int64())}))


def starts(catalog: Catalog, *tables: str, beside: list[str] | None = None) -> dict[str, int]:
    return {name: at.snapshot_id for name, at in startup_snapshots(catalog, tables, beside=beside).items()}


def startup_rows(catalog: Catalog) -> list[tuple[str, str, str, int]]:
    rows = catalog.system_table("sys.job_startup").to_arrow().to_pylist()
    return sorted((row["job"], row["database"], row["table"], row["snapshot_id"]) for row in rows)


def test_a_job_starts_at_the_versions_that_another_job_has_made_its_table_from(catalog: Catalog, make: Make) -> None:
    s, t, five = make("s"), make("t"), make("five")
    job = StreamJob(five, [s, t], user="one")
    grow(s, 2)
    grow(t, 3)
    job.run()
    grow(s, 4)
    grow(t)

    assert made_from_any(catalog, ["db.s", "db.t"]) == ["db.five"]
    assert starts(catalog, "db.s", "db.t") == {"db.s": 2, "db.t": 3}
    assert starts(catalog, "db.s", "db.t", beside=[]) == {"db.s": 6, "db.t": 4}


def test_a_job_that_reads_derived_tables_starts_where_they_share_their_source(catalog: Catalog, make: Make) -> None:
    s, a, b = make("s"), make("a"), make("b")
    fast, slow = StreamJob(a, [s], user="fast"), StreamJob(b, [s], user="slow")
    grow(s, 3)
    for number in (1, 2, 3):
        fast.run({"db.s": number})
    slow.run({"db.s": 2})

    assert starts(catalog, "db.a", "db.b") == {"db.a": 2, "db.b": 1}


def test_where_no_snapshots_go_together_the_error_says_why_and_what_would_help(catalog: Catalog, make: Make) -> None:
    s, five = make("s"), make("five")
    grow(s)
    StreamJob(five, [s], user="one").run()
    grow(s, 3)
    s.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")

    with pytest.raises(NotConsistentError) as caught:
        startup_snapshots(catalog, ["db.s"])
    for part in ("no snapshots to start at", "db.s itself lives from snapshot 4 on", "without db.five"):
        assert part in str(caught.value)


def test_the_start_is_decided_once_and_recorded(catalog: Catalog, make: Make, tmp_path: Path) -> None:
    s, five = make("s"), make("five")
    checkpoint = Location.of(tmp_path / "checkpoint")
    grow(s)
    StreamJob(five, [s], user="one").run()
    grow(s)
    start_beside(catalog, ["db.s"], checkpoint, group="g", job="two")
    StreamJob(five, [s], user="three").run()  # the other job has gone on, and the first batch was not committed
    start_beside(catalog, ["db.s"], checkpoint, group="g", job="two")

    assert startup_rows(catalog) == [("two", "db", "s", 1)]
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("")
    start_beside(catalog, ["db.s"], checkpoint, group="g", job="other")  # begun: it goes on where it is
    assert startup_rows(catalog) == [("two", "db", "s", 1)]


def test_a_table_that_does_not_exist_is_named(catalog: Catalog, make: Make) -> None:
    make("s")

    with pytest.raises(NotFoundError, match=r"db\.none"):
        startup_snapshots(catalog, ["db.s", "db.none"])
