"""Answers over HTTP about the lineage of fields that was made by hand: 100,000 edges, of which an answer has 1,000."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import uvicorn

from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.columns.field_runs import FieldRun, KnownFields, PresentColumn, PresentTable
from lakelog.lineage.columns.questions.field_index import build_index
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.server.page_app import page_app
from lakelog.lineage.server.serving import listening_socket

LEVELS, FIELDS, EDGES_OF_FIELD = 5, 20, 5
PIPELINES = 100  # of 1,000 edges: five levels up and five down from the dataset in the middle
MIDDLE = f"p50_t{LEVELS}"
PATHS = {
    "rest_level5_ms": f"/v3/namespaces/db/endpoints/{MIDDLE}/fields/lineage?start=0&end=now&level={LEVELS}",
    "rest_graph5_ms": f"/api/graph?ns=db&dataset={MIDDLE}&direction=both&depth={LEVELS}",
    "rest_field_ms": f"/v3/namespaces/db/datasets/{MIDDLE}/lineage/fields/f1?start=0&end=now&direction=both",
    "rest_search_ms": "/api/search?q=f1&limit=50",
}


def rest_figures(is_small: bool) -> dict[str, object]:
    """The milliseconds of answers, each the median over one connection, and of building the index."""
    known = known_pipelines(3 if is_small else PIPELINES, at=50)
    started = time.perf_counter()
    build_index(known).close()
    figures: dict[str, object] = {"index_build_ms": round((time.perf_counter() - started) * 1_000)}
    with served(known) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for name, path in PATHS.items():
            times = []
            for _ in range(5 if is_small else 60):
                started = time.perf_counter()
                connection.request("GET", path)
                body = connection.getresponse().read()
                times.append((time.perf_counter() - started) * 1_000)
            figures[name] = round(median(times[2:]), 2)
            if name == "rest_level5_ms":
                pairs = json.loads(body)
                figures["rest_level5_edges"] = sum(len(pair["fieldmap"]) for pair in pairs)
        connection.close()
    figures["rest_edges"] = sum(len(field.edges) for one in known.documents.values() for field in one.lineage.fields)
    return figures


def known_pipelines(count: int, *, at: int) -> KnownFields:
    """Chains of datasets: each field is made from some fields of the dataset before it. One chain has the number `at`.

    Each document is that of one dataset.
    """
    runs, documents, tables = [], {}, []
    columns = tuple(PresentColumn(f"f{number}", number, "BIGINT") for number in range(FIELDS))
    for pipeline in range(at, at + count):
        names = [f"p{pipeline}_t{level}" for level in range(2 * LEVELS + 1)]
        tables += [PresentTable(dataset=Dataset("db", name), uuid=name, columns=columns) for name in names]
        for source, sink in pairwise(names):
            document = _document(Dataset("db", source))
            documents[document.checksum] = document
            runs.append(
                FieldRun(
                    sink=Dataset("db", sink),
                    sink_uuid=sink,
                    job=f"make {sink}",
                    checksum=document.checksum,
                    first_millis=1_700_000_000_000,
                    last_millis=1_700_000_060_000,
                    first_snapshot=1,
                    last_snapshot=60,
                )
            )
    return KnownFields(runs=runs, documents=documents, tables=tables)


def _document(source: Dataset) -> FieldDocument:
    fields = tuple(
        OutputField(
            name=f"f{number}",
            edges=frozenset(
                FieldEdge(SourceField(source, (f"f{(number + step) % FIELDS}",)), EdgeKind.TRANSFORMATION)
                for step in range(EDGES_OF_FIELD)
            ),
        )
        for number in range(FIELDS)
    )
    return FieldDocument(lineage=FieldLineage(fields=fields))


@contextmanager
def served(known: KnownFields) -> Iterator[int]:
    """A server in a thread of this process; gives its port."""
    state = PageState(lambda: known, refresh_seconds=1e9)
    listening = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(page_app(state), log_level="warning", lifespan="off", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        state.close()
