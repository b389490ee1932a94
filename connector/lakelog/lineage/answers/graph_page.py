"""The page of the graph around a table: columns where their lineage is known, tables and jobs elsewhere."""

from __future__ import annotations

from lakelog.lineage.answers.graph import LineageGraph, LineageJob, LineageNode, NodeKind
from lakelog.lineage.answers.wording import job_lines, reasons_of
from lakelog.lineage.columns.dataset_names import dataset_of_table
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import build_index
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import KnownState
from lakelog.lineage.page.saved_page import HOPS_MAX, SavedPage
from lakelog.lineage.page.table_histories import TableHistories
from lakelog.lineage.tables.warehouse_lineage import known_fields
from lakelog.warehouse.warehouse import Warehouse

ALL_COLUMNS = "*"


def graph_page(
    catalog: Warehouse, snapshot_id: int | None, depth: int | None, direction: str, graph: LineageGraph
) -> str:
    """The page, one file. Raises InvalidRequestError for too many tables."""
    asked = _dataset_of(graph.nodes[0], None)
    state = KnownState(build_index(known_fields(catalog)), TableHistories([catalog]))
    page = SavedPage(
        state,
        {
            "ns": asked.namespace,
            "dataset": asked.name,
            "direction": direction,
            "depth": str(min(depth or HOPS_MAX, HOPS_MAX)),
            "at": "" if snapshot_id is None else str(snapshot_id),
        },
    )
    _add_links(page, graph)
    return page.html()


def _add_links(page: SavedPage, graph: LineageGraph) -> None:
    """Add the links between tables that no edge between columns stands for."""
    found = page.graph
    ids = {(one["ns"], one["dataset"]): one["id"] for one in found["datasets"]}
    known = {(one["source"][0], one["target"][0]) for one in found["edges"]}
    known |= {(one["source"][0], one["target"]) for one in found["datasetEdges"]}
    made = {target for _, target in known}
    reasons = reasons_of(graph.links)
    jobs = {(one.sink, one.job): one for one in graph.jobs}
    writes: dict[tuple[Dataset, Dataset], list[Json]] = {}
    for link in graph.links:
        source, sink = (_dataset_of(graph.nodes[place], reasons.get(place)) for place in (link.source, link.sink))
        is_table = graph.nodes[link.source].kind is NodeKind.TABLE
        if (ids.get(source), ids.get(sink)) in known if is_table else ids.get(sink) in made:
            continue
        writes.setdefault((source, sink), []).append(_write(jobs[link.sink, link.job]))
    for place, node in enumerate(graph.nodes):
        dataset = _dataset_of(node, reasons.get(place))
        if dataset not in ids and any(dataset in pair for pair in writes):
            ids[dataset] = len(ids)
            found["datasets"].append(_box(dataset, ids[dataset], node))
    for (source, sink), some in writes.items():
        ends = {"source": [ids[source], ALL_COLUMNS], "target": ids[sink]}
        found["datasetEdges"].append(ends | {"kinds": [], "masked": False, "approximate": True})
        names = {"fromNs": source.namespace, "fromDataset": source.name, "fromField": ALL_COLUMNS}
        page.edges.append((names | {"toNs": sink.namespace, "toDataset": sink.name}, {"writes": some}))


def _dataset_of(node: LineageNode, why: str | None) -> Dataset:
    match node.kind:
        case NodeKind.TABLE:
            return dataset_of_table(node.name)
        case NodeKind.FOREIGN:
            namespace, _, name = node.name.partition(":")
            return Dataset(namespace, name or namespace)
        case NodeKind.UNKNOWN:
            return Dataset(why or "", "unknown source")


def _box(dataset: Dataset, number: int, node: LineageNode) -> Json:
    return {
        "id": number,
        "ns": dataset.namespace,
        "dataset": dataset.name,
        "foreign": node.kind is not NodeKind.TABLE,
        "hop": node.depth,
        "fieldCount": 0,
        "shown": 0,
        "fields": [],
    }


def _write(job: LineageJob) -> Json:
    return {
        "checksum": "",
        "job": ", ".join(job_lines(job)),
        "operations": [],
        "sql": None,
        "kinds": [],
        "masked": False,
        "approximate": True,
        "opaque": False,
        "runs": [],
        "runCount": 0,
    }
