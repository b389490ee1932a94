"""What a table with a log gets in one act while streams read it: a restore, through log or files, or a merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from tests.support.streams.planned_reader import rows_of, write, write_changes
from tests.support.tables.small_tables import SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """An act, the option that stops streams there, and the message; `renews_log` says that the topic changes."""

    act: Callable[[Table], object]
    option: str
    message: str
    renews_log: bool = False

    @property
    def stops(self) -> Mapping[str, str]:
        """The options of a stream that is not to be fed."""
        return {self.option: "fail"}


RESTORED = (
    r"(an older state was restored \(RESTORE\)|restored an older state).*, and the query has stream.on-restore=fail"
)
LINE_CHANGES = {
    "restore": LineChange(act=lambda table: table.restore(tag="t"), option="stream.on-restore", message=RESTORED),
    "restore with a new topic": LineChange(
        act=lambda table: table.restore(tag="t", renew_log=True),
        option="stream.on-restore",
        message=RESTORED,
        renews_log=True,
    ),
    "merge": LineChange(
        act=lambda table: table.branches.merge("dev", on_conflict="branch"),
        option="stream.on-merge",
        message=r"(a branch was merged into it|merged a branch into it).*, and the query has stream.on-merge=fail",
    ),
}


def filled_table(folder: Path, servers: str, *, mode: str = "all") -> Table:
    """Batches 0 and 1, their tag `t` and branch `dev`; then batches 2 and 3 in the table, others in the branch."""
    catalog = Catalog(folder / "lake", bootstrap_servers=servers)
    options = {
        "bucket": "2",
        "log.system": "kafka",
        "log.changelog-mode": mode,
        "log.kafka.bootstrap.servers": servers,
    }
    table = catalog.create_table("db.t", schema=SCHEMA, options=options, primary_keys=["id"])
    write(table, 0)
    write(table, 1)
    table.tags.create("t")
    table.branches.create("dev")
    branch = table.branch("dev")
    branch.write(pa.concat_tables([rows_of(5), pa.table({"id": [0], "batch": [5]}, schema=SCHEMA)]))
    branch.delete("id = 1")
    write(table, 2)
    write_changes(table, 3, [0, 10, 30])
    return table


def rows_in(table: Table) -> Counter[tuple[object, ...]]:
    """The rows of the newest snapshot."""
    return Counter(tuple(row.values()) for row in table.to_arrow().to_pylist())
