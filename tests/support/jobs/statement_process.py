"""A process that runs one batch statement on a logged table, and maybe kills itself at a step."""

from __future__ import annotations

import os
import signal

import pyarrow as pa

from lakelog.catalog import Catalog
from lakelog.common.types import RowKind
from lakelog.filestore.metadata.snapshots.snapshot import BranchVerb
from lakelog.filestore.refs.merges.whole_branch import WholeBranch
from lakelog.filestore.refs.restore.restore_plan import restore_plan
from lakelog.filestore.write.changing import update_plan, write_plan
from lakelog.filestore.write.row_input import row_source
from lakelog.protocol.state.steps import Step
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.statements.branch_merging import LoggedMerge
from lakelog.protocol.statements.statement_runs import LoggedTable
from tests.support.logs.local_writer import LocalWriter, log_target

KEYS = 8
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


def main(lake: str, servers: str, what: str, number: str, step_name: str) -> None:
    """Give every row of the table `db.t` the value `number`; or write first rows, one row, a stream's batch of one row.

    Or restore the snapshot of that number, or give the table the rows of its branch `b`.

    Killed at the step of this name; `-` lives.
    """
    for module in (statements, branch_merging):
        setattr(module, "GRACE_MILLIS", 0)  # noqa: B010  # imported by value
    table = Catalog(lake, bootstrap_servers=servers).load_table("db.t")
    dies_at = None if step_name == "-" else Step[step_name]

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    value = int(number)
    keys = list(range(KEYS)) if what == "fill" else [1_000 + value]
    one = pa.table({"k": keys, "v": [value] * len(keys)}, schema=SCHEMA)
    if what == "batch":
        kinds = pa.array([int(RowKind.INSERT)], pa.int8())
        LocalWriter(table, "q", observe=observe).write(value, one, kinds)
        return
    logged = LoggedTable.of(table.store, log_target(table), observe=observe)
    if what == "update":
        logged.run("UPDATE", update_plan(table.store, {"v": value}, None))
    elif what == "restore":
        logged.run("RESTORE", restore_plan(table.store, table.store.snapshots.get(value)))
    elif what == "take":
        whole = WholeBranch.of(table.store, table.store.on_branch("b"), BranchVerb.MERGE)
        LoggedMerge(logged=logged, merger=whole).run()
    else:
        logged.run("INSERT", write_plan(table.store, row_source(one), None))
