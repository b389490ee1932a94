"""The graph around a table, from edges that were made by hand."""

from __future__ import annotations

from lakelog.lineage.answers.graph import LineageGraph, NodeKey, NodeKind, graph_of
from lakelog.lineage.tables.edges import edge_table

Edge = dict[str, object]


def edge(job: str, source: str, to: int | None, sink: str, snapshot: int, **more: object) -> Edge:
    """A batch of a job that read a table up to a snapshot and wrote this one of the sink."""
    return {
        "job": job,
        "sink_uuid": f"uuid-{sink}",
        "sink_table": f"db.{sink}",
        "sink_snapshot": snapshot,
        "sink_time": 0,
        "user": job,
        "identifier": snapshot,
        "source_kind": "table",
        "source_uuid": f"uuid-{source}",
        "source_table": f"db.{source}",
        "source_from": None if to is None else to - 1,
        "source_to": to,
        "exact": True,
        **more,
    }


# Job 1 makes c of a and b, snapshot by snapshot; job 2 makes d of c, two snapshots at a time; job 3 makes e of a and d.
PIPELINE = [
    *(edge("1", source, number, "c", number) for number in range(1, 9) for source in "ab"),
    *(edge("2", "c", 2 * number, "d", number, source_from=2 * number - 2) for number in range(1, 5)),
    *(edge("3", source, number, "e", number) for number in range(1, 5) for source in "ad"),
]


def graph(edges: list[Edge], table: str, *, depth: int | None = None) -> LineageGraph:
    known = edge_table(edges)
    return graph_of(NodeKey(NodeKind.TABLE, f"uuid-{table}"), f"db.{table}", known, known, depth=depth)


def links(found: LineageGraph) -> set[tuple[str, str | None, str]]:
    return {(found.nodes[link.source].name, link.job, found.nodes[link.sink].name) for link in found.links}


def spans(found: LineageGraph) -> dict[str, tuple[int | None, int | None]]:
    return {node.name: (node.first, node.last) for node in found.nodes}


def test_a_table_without_edges_is_alone() -> None:
    found = graph([], "c")

    assert [(node.name, node.depth) for node in found.nodes] == [("db.c", 0)]
    assert found.links == []


def test_all_that_is_above_and_below_is_found_and_nothing_beside() -> None:
    found = graph(PIPELINE, "c")

    assert {node.name: node.depth for node in found.nodes} == {"db.c": 0, "db.a": -1, "db.b": -1, "db.d": 1, "db.e": 2}
    assert links(found) == {
        ("db.a", "1", "db.c"), ("db.b", "1", "db.c"), ("db.c", "2", "db.d"), ("db.d", "3", "db.e")
    }  # fmt: skip
    assert found.nodes[0].name == "db.c"


def test_links_and_jobs_stand_for_all_their_batches() -> None:
    found = graph([*PIPELINE, edge("1", "b", 9, "c", 9, exact=False, why="the log is ahead")], "c", depth=1)

    jobs = {(job.job, found.nodes[job.sink].name): (job.batch_count, job.first, job.last) for job in found.jobs}
    assert jobs == {("1", "db.c"): (9, 1, 9), ("2", "db.d"): (4, 1, 4)}
    read = {found.nodes[link.source].name: (link.source_from, link.source_to, link.is_exact) for link in found.links}
    assert read == {"db.a": (0, 8, True), "db.b": (0, 9, False), "db.c": (0, 8, True)}
    assert [link.why for link in found.links] == [None, "the log is ahead", None]
    assert spans(found) == {"db.c": (1, 9), "db.a": (1, 8), "db.b": (1, 9), "db.d": (1, 4)}


def test_a_read_from_the_beginning_counts_up_to_its_snapshot() -> None:
    found = graph([edge("1", "a", 3, "b", 1, source_from=None), edge("1", "a", 5, "b", 2)], "b")

    assert spans(found) == {"db.b": (1, 2), "db.a": (None, 5)}


def test_the_depth_ends_the_graph_in_both_directions() -> None:
    assert {node.name for node in graph(PIPELINE, "d", depth=1).nodes} == {"db.d", "db.c", "db.e"}


def test_a_cycle_ends() -> None:
    edges = [edge("1", "a", 2, "b", 1), edge("2", "b", 1, "a", 3), edge("3", "a", 3, "a", 4)]

    found = graph(edges, "a")

    assert links(found) == {("db.a", "1", "db.b"), ("db.b", "2", "db.a"), ("db.a", "3", "db.a")}
    assert all(link.is_above and link.is_below for link in found.links)


def test_a_source_that_is_no_table_and_an_unknown_one_are_nodes() -> None:
    kafka = edge("1", "x", None, "a", 1, source_kind="foreign", source_uuid=None, source_table="kafka:orders")
    unknown = edge("2", "x", None, "a", 2, source_kind="unknown", source_uuid=None, source_table=None, why="an RDD")

    found = graph([kafka, unknown, {**kafka, "source_kind": None}], "a")

    assert [(node.kind, node.name, node.uuid) for node in found.nodes[1:]] == [
        (NodeKind.FOREIGN, "kafka:orders", None),
        (NodeKind.UNKNOWN, "unknown", None),
    ]
    assert [link.why for link in found.links] == [None, "an RDD"]


def test_a_renamed_table_has_its_last_name_and_a_branch_is_a_node_of_its_own() -> None:
    renamed = edge("1", "a", 2, "b", 2, source_table="db.other")
    branched = edge("1", "a", 2, "b", 3, source_branch="dev", source_table="db.other")

    found = graph([edge("1", "a", 1, "b", 1), renamed, branched], "b")

    assert [node.name for node in found.nodes] == ["db.b", "db.other", "db.other$branch_dev"]
