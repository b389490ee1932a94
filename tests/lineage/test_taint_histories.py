"""Random histories of tables, branches and jobs, of whose rows a model knows where they came from: the questions agree.

`tainted` is compared with the rows of the model, `upstream` and `downstream` with what each batch has really read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.lineage import downstream, lineage_graph, tainted, upstream
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from tests.support.lineage.row_histories import Commit, RowHistory, State

STEPS = 28
LONG = 40
LONGEST = 80
EVERY = 7


def is_made_from(rows: State, wrong: Commit, *, counts_shadows: bool) -> bool:
    """Whether one of the rows, or of the shadows of deleted ones, was made from a commit."""
    return any(wrong.uuid in row.origins and (counts_shadows or row.is_there) for row in rows.values())


def check_tainted(history: RowHistory, graph: EdgeArrays, line: str, wrong: Commit) -> None:
    """What is tainted by the rows of a commit: nothing is missing, and nothing is too much.

    In tables with partitions the shadows are no rows: a batch that read them alone wrote to no partition.
    """
    living = history.living()
    known = {one.uuid for found in living.values() for one in found} | {
        one.uuid for one in history.commits.values() if one.edges
    }
    counts_shadows = not history.has_partitions
    truth = {
        one.uuid
        for one in history.commits.values()
        if one.uuid in known and is_made_from(one.added, wrong, counts_shadows=counts_shadows)
    }
    held = {
        name
        for name, found in living.items()
        if found and is_made_from(found[-1].state, wrong, counts_shadows=counts_shadows)
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
            assert not is_made_from(clean.state, wrong, counts_shadows=counts_shadows)
    if history.is_exact and not history.has_partitions and not history.has_guesses():
        assert snapshots == truth, "snapshots too many"
        assert dirty == held, f"tables too many: {sorted(dirty - held)}"


def check_graph(history: RowHistory, graph: EdgeArrays, line: str, asked: Commit) -> None:
    """What a commit was made from, and what was made from it, by what each batch has read.

    After a rollback of a snapshot without edges the answer may have too much: docs/rfcs/0039, "Questions".
    """
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
        truth = {named(at) for at in found}
        assert truth <= above, "upstream is missing"
        assert truth == above or history.gave_way, "upstream is too much"
    found = {at for at, (one, _) in enumerate(edges) if asked.uuid in reads[one.uuid, at]}
    while True:
        written = {edges[at][0].uuid for at in found}
        more = {at for at, (one, _) in enumerate(edges) if written & reads[one.uuid, at]} | found
        if more == found:
            break
        found = more
    truth = {named(at) for at in found}
    assert truth <= below, "downstream is missing"
    assert truth == below or history.gave_way, "downstream is too much"


def read_by(history: RowHistory, edge: dict[str, object]) -> Iterator[Commit]:
    """The commits that an edge has read; none of a source that is not known."""
    if edge["source_kind"] != "table":
        return
    is_state = (edge["mode"] == "batch" and not edge["source_branch"]) or edge["source_from"] is None
    for one in history.path(history.commits[str(edge["source_to_commit"])]):
        if not is_state and one.uuid == edge["source_from_commit"]:
            return
        yield one


def run(folder: Path, seed: int, steps: int = STEPS, *, has_statements: bool = False) -> int:
    """One history; gives how many questions were asked."""
    history = RowHistory(folder, seed, has_statements=has_statements)
    questions = 0
    for number in range(1, steps + 1):
        history.step()
        if number % EVERY == 0:
            graph = lineage_graph(history.catalog)
            for line, commits in history.living().items():
                for commit in history.choose.sample(commits, min(2, len(commits))):
                    if commit.added and commit.restored is None:
                        check_tainted(history, graph, line, commit)
                        questions += 1
                    check_graph(history, graph, line, commit)
                    questions += 2
    return questions


@pytest.mark.parametrize("seed", range(4))
def test_questions_agree_with_the_rows(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed) > 0


@pytest.mark.parametrize("seed", range(2))
def test_questions_agree_beside_statements_that_were_worked_out_before(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, has_statements=True) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(200, 260))
def test_questions_agree_beside_many_statements_that_were_worked_out_before(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, LONG, has_statements=True) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 200))
def test_questions_agree_with_the_rows_of_longer_histories(tmp_path: Path, seed: int) -> None:
    assert run(tmp_path, seed, LONG) > 0


@pytest.mark.full
@pytest.mark.parametrize("seed", range(300, 320))
@pytest.mark.parametrize("has_statements", [False, True])
def test_questions_agree_with_the_rows_of_the_longest_histories(
    tmp_path: Path, seed: int, has_statements: bool
) -> None:
    assert run(tmp_path, seed, LONGEST, has_statements=has_statements) > 0
