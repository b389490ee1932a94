"""The graph around a table, from edges that were made by hand."""

from __future__ import annotations

import pyarrow as pa

from lakelog.lineage.edge_columns import NodeKind
from lakelog.lineage.edges import edge_table
from lakelog.lineage.graph import LineageGraph, lineage_graph, table_key

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
        "source_to": to,
        "exact": True,
        **more,
    }


# Job 1 makes c of a and b, snapshot by snapshot; job 2 makes d of c, two snapshots at a time; job 3 makes e of a and d.
PIPELINE = [
    *(edge("1", source, number, "c", number) for number in range(1, 9) for source in "ab"),
    *(edge("2", "c", 2 * number, "d", number) for number in range(1, 5)),
    *(edge("3", source, number, "e", number) for number in range(1, 5) for source in "ad"),
]


def graph(edges: list[Edge], table: str, **which: object) -> LineageGraph:
    return lineage_graph(edge_table(edges), table_key(f"uuid-{table}"), f"db.{table}", **which)  # type: ignore[arg-type]


def spans(found: LineageGraph) -> dict[str, tuple[int | None, int | None]]:
    return {node.name: (node.first, node.last) for node in found.nodes}


def links(found: LineageGraph) -> set[tuple[str, str | None, str]]:
    return {(found.nodes[link.source].name, link.job, found.nodes[link.sink].name) for link in found.links}


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


def test_a_snapshot_is_made_from_its_sources_up_to_what_its_batches_had_read() -> None:
    found = graph(PIPELINE, "e", snapshot_id=2, down=False)

    assert spans(found) == {"db.e": (2, 2), "db.d": (None, 2), "db.c": (None, 4), "db.a": (None, 4), "db.b": (None, 4)}
    written = {found.nodes[job.sink].name: (job.batch_count, job.first, job.last) for job in found.jobs}
    assert written == {"db.e": (2, 1, 2), "db.d": (2, 1, 2), "db.c": (4, 1, 4)}


def test_what_was_made_from_a_snapshot_begins_with_the_batch_that_read_it() -> None:
    found = graph(PIPELINE, "c", snapshot_id=5, up=False)

    assert spans(found) == {"db.c": (5, 5), "db.d": (3, None), "db.e": (3, None)}
    assert {(job.first, job.last) for job in found.jobs} == {(3, 4)}


def test_the_depth_ends_the_graph_in_both_directions() -> None:
    assert {node.name for node in graph(PIPELINE, "d", depth=1).nodes} == {"db.d", "db.c", "db.e"}
    assert {node.name for node in graph(PIPELINE, "d", up=False).nodes} == {"db.d", "db.e"}
    assert {node.name for node in graph(PIPELINE, "d", down=False).nodes} == {"db.d", "db.c", "db.a", "db.b"}


def test_a_cycle_ends() -> None:
    edges = [edge("1", "a", 2, "b", 1), edge("2", "b", 1, "a", 3), edge("3", "a", 3, "a", 4)]

    found = graph(edges, "a", snapshot_id=4)

    assert links(found) == {("db.a", "1", "db.b"), ("db.b", "2", "db.a"), ("db.a", "3", "db.a")}


def test_a_source_that_is_no_table_and_an_unknown_one_are_nodes() -> None:
    kafka = edge("1", "x", None, "a", 1, source_kind="foreign", source_uuid=None, source_table="kafka:orders")
    unknown = edge("2", "x", None, "a", 2, source_kind="unknown", source_uuid=None, source_table=None, why="an RDD")

    found = graph([kafka, unknown, {**kafka, "source_kind": None}], "a", snapshot_id=2)

    assert [(node.kind, node.name, node.uuid) for node in found.nodes[1:]] == [
        (NodeKind.FOREIGN, "kafka:orders", None),
        (NodeKind.UNKNOWN, "unknown", None),
    ]
    assert [link.why for link in found.links] == [None, "an RDD"]


def test_a_source_whose_snapshot_is_not_known_counts_whole() -> None:
    edges = [edge("1", "a", None, "b", 1, exact=False, why="the log is ahead"), edge("0", "z", 7, "a", 9)]

    found = graph(edges, "b", snapshot_id=1, down=False)

    assert spans(found) == {"db.b": (1, 1), "db.a": (None, None), "db.z": (None, None)}
    assert (found.links[0].is_exact, found.links[0].why) == (False, "the log is ahead")


def test_a_renamed_table_has_its_last_name_and_a_branch_is_a_node_of_its_own() -> None:
    renamed = edge("1", "a", 2, "b", 2, source_table="db.other")
    branched = edge("1", "a", 2, "b", 3, source_branch="dev", source_table="db.other")

    found = graph([edge("1", "a", 1, "b", 1), renamed, branched], "b")

    assert [node.name for node in found.nodes] == ["db.b", "db.other", "db.other$branch_dev"]


def test_a_large_graph_is_made_of_columns() -> None:
    edges = edge_table([edge("1", str(number % 40), 1, str(number % 40 + 1), number) for number in range(1, 5000)])

    found = lineage_graph(pa.concat_tables([edges] * 10), table_key("uuid-20"), "db.20")

    assert len(found.nodes) == 41
