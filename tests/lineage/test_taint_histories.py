"""Random histories of tables, branches and jobs, of whose rows a model knows where they came from: the questions agree.

`tainted` is compared with the rows of the model, `upstream` and `downstream` with what each batch has really read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.lineage import downstream, lineage_graph, tainted, upstream
from lakelog.lineage.edge_arrays import EdgeArrays
from tests.support.row_histories import Commit, RowHistory

STEPS = 28
EVERY = 7


def check_tainted(history: RowHistory, graph: EdgeArrays, line: str, wrong: Commit) -> None:
    """What is tainted by the rows of a commit."""
    living = history.living()
    known = {one.uuid for found in living.values() for one in found} | {
        one.uuid for one in history.commits.values() if one.edges
    }
    truth = {
        one.uuid
        for one in history.commits.values()
        if one.uuid in known and any(wrong.uuid in row.origins for row in one.added.values())
    }
    held = {
        name
        for name, found in living.items()
        if found and any(wrong.uuid in row.origins for row in found[-1].state.values())
    }

    answer = tainted(history.catalog, line, wrong.id, commit=wrong.uuid, graph=graph)
    snapshots = set(answer.snapshots["commit"].to_pylist()) & known
    rows = answer.tables.to_pylist()
    dirty = {row["table"] for row in rows if row["holds_tainted_rows"] and row["table"] in living}

    assert truth <= snapshots, "missing snapshots"
    assert held <= dirty, "missing tables"
    for row in rows:
        if row["last_clean"] is not None:
            (clean,) = [one for one in living[row["table"]] if one.id == row["last_clean"]]
            assert not any(wrong.uuid in one.origins for one in clean.state.values())
    if not history.cleared_partitions:
        assert snapshots == truth, "snapshots too many"
        assert dirty == held, f"tables too many: {sorted(dirty - held)}"


def check_graph(history: RowHistory, graph: EdgeArrays, line: str, asked: Commit) -> None:
    """What a commit was made from, and what was made from it, by what each batch has read."""
    _table, _, _branch = line.partition("$branch_")
    up = upstream(history.catalog, line, asked.id, commit=asked.uuid, graph=graph).to_pylist()
    down = downstream(history.catalog, line, asked.id, commit=asked.uuid, graph=graph).to_pylist()
    above, below = (
        {
            (row["sink_commit"], row["source_uuid"], row["source_to_commit"])
            for row in rows
            if row["operation"] != "BRANCH"
        }
        for rows in (up, down)
    )
    edges = [(one, edge) for one in history.commits.values() for edge in one.edges]
    reads = {(one.uuid, at): {read.uuid for read in read_by(history, edge)} for at, (one, edge) in enumerate(edges)}

    def named(at: int) -> tuple[str, str, str]:
        one, edge = edges[at]
        return one.uuid, edge["source_uuid"], edge["source_to_commit"]

    found = {at for at, (one, _) in enumerate(edges) if one is asked}
    while True:
        read = {uuid for at in found for uuid in reads[edges[at][0].uuid, at]}
        more = {at for at, (one, _) in enumerate(edges) if one.uuid in read} | found
        if more == found:
            break
        found = more
    if asked.edges:
        assert {named(at) for at in found} == above, "upstream"
    found = {at for at, (one, _) in enumerate(edges) if asked.uuid in reads[one.uuid, at]}
    while True:
        written = {edges[at][0].uuid for at in found}
        more = {at for at, (one, _) in enumerate(edges) if written & reads[one.uuid, at]} | found
        if more == found:
            break
        found = more
    assert {named(at) for at in found} == below, "downstream"


def read_by(history: RowHistory, edge: dict[str, object]) -> Iterator[Commit]:
    """The commits that an edge has read; none of a source that is not known."""
    if edge["source_kind"] != "table":
        return
    is_state = (edge["mode"] == "batch" and not edge["source_branch"]) or edge["source_from"] is None
    for one in history.path(history.commits[str(edge["source_to_commit"])]):
        if not is_state and one.uuid == edge["source_from_commit"]:
            return
        yield one


def run(folder: Path, seed: int, steps: int = STEPS) -> int:
    """One history; gives how many questions were asked."""
    history = RowHistory(folder, seed)
    questions = 0
    for number in range(1, steps + 1):
        history.step()
        if number % EVERY == 0:
            graph = lineage_graph(history.catalog)
            for line, commits in history.living().items():
                for commit in history.choose.sample(commits, min(2, len(commits))):
                    if commit.added and not commit.is_restore:
                        check_tainted(history, graph, line, commit)
                        questions += 1
                    check_graph(history, graph, line, commit)
                    questions += 2
    return questions


@pytest.mark.parametrize("seed", range(4))
def test_questions_agree_with_the_rows(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 200))
def test_questions_agree_with_the_rows_of_longer_histories(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, steps=2 * STEPS) > 0
