"""The page in one file: its modules, its style, and the answers to what it asks. It needs no server, and asks none.

A module is an address of its own, `data:`, by which the import map of the file finds it. Answers are JSON in an element
that is not run, with `<` as an escape: no name can end the element.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import dirname, normpath
from urllib.parse import urlencode

from lakelog.common.errors import InvalidRequestError
from lakelog.lineage.columns.questions.field_questions import BOTH
from lakelog.lineage.page.graph_api import GraphApi
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.query_values import Query

STATIC = Path(__file__).parent / "static"
DATASETS_MAX = 400  # that the page draws
DETAILS_MAX = 300  # datasets, edges and columns of which the file has the details: the nearest to the middle
HOPS_MAX = 20
_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
_IMPORTED = re.compile(r'(?<= from )"(\.[^"]+)"(?=;$)', re.MULTILINE)
_HEAD = re.compile(r'    <link rel="icon".*<script type="module" src="static/main.js"></script>\n', re.DOTALL)


class SavedPage:
    """What a file will have: the graph of one question, and the details of its datasets and edges."""

    def __init__(self, state: Answering, query: Mapping[str, str]) -> None:
        """Read the graph. `query` has the names and values of the page's address. Raises NotFoundError."""
        self._api = GraphApi(state)
        given = {name: value for name, value in query.items() if value}
        self._query = {"direction": BOTH, "depth": str(HOPS_MAX), "limit": str(DATASETS_MAX)} | given
        self.graph = self._api.graph(Query(self._query.items()))
        self.edges: list[tuple[Mapping[str, str], Json]] = []
        """Edges that the caller adds to the graph: their names, as the page asks for them, and their details."""

    def html(self) -> str:
        """The file. Raises InvalidRequestError for too many datasets."""
        total = max(self.graph["total"], len(self.graph["datasets"]))
        if total > DATASETS_MAX or self.graph["tooMany"]:
            raise InvalidRequestError(
                f"a picture of {total} tables cannot be drawn, at most {DATASETS_MAX} with 20,000 edges are allowed; "
                "ask for fewer hops: depth=, --depth"
            )
        graph = self.graph | {
            "datasets": [one | {"moreUp": False, "moreDown": False} for one in self.graph["datasets"]]
        }
        answers = [
            {"path": path, "query": query, "answer": answer}
            for path, query, answer in [("graph", self._query, graph), *self._details()]
        ]
        return _file({"search": f"?{urlencode(self._query, errors='replace')}", "answers": answers})

    def _details(self) -> Iterator[tuple[str, Mapping[str, str], Json]]:
        known = {one["id"]: one for one in self.graph["datasets"]}
        span: dict[str, str] = {name: self._query[name] for name in ("start", "end") if name in self._query}
        nearest = sorted(known.values(), key=lambda one: abs(one["hop"]))
        for one in nearest[:DETAILS_MAX]:
            query = {"ns": one["ns"], "dataset": one["dataset"], "limit": "50"}
            if not one["foreign"]:
                yield "dataset", query, self._api.dataset(Query(query.items())) | {"next": None}
        added = [names for names, _ in self.edges]
        for names in list(_edges_of(self.graph, known))[:DETAILS_MAX]:
            if names not in added:
                yield "edge", names | span, self._api.edge(Query((names | span).items()))
        for given, answer in self.edges:
            yield "edge", dict(given) | span, answer
        kinds = {"kinds": self._query["kinds"]} if "kinds" in self._query else {}
        fields = [(one["ns"], one["dataset"], field["name"]) for one in nearest for field in one["fields"]]
        for ns, dataset, field in fields[:DETAILS_MAX]:
            query = {"ns": ns, "dataset": dataset, "field": field, "depth": "20", "limit": "500"} | kinds | span
            yield "impact", query, self._api.impact(Query(query.items()))


def _edges_of(graph: Json, known: Mapping[int, Json]) -> Iterator[dict[str, str]]:
    """The names of the edges, as the page asks for them; the nearest to the middle first."""
    ends = [(*one["source"], *one["target"]) for one in graph["edges"]]
    ends += [(*one["source"], one["target"], "") for one in graph["datasetEdges"]]
    ends.sort(key=lambda one: abs(known[one[0]]["hop"] + known[one[2]]["hop"]))
    for source, field, target, to_field in ends:
        names = {"fromNs": known[source]["ns"], "fromDataset": known[source]["dataset"], "fromField": field}
        names |= {"toNs": known[target]["ns"], "toDataset": known[target]["dataset"]}
        yield names | ({"toField": to_field} if to_field else {})


def _file(saved: Json) -> str:
    modules = {path.relative_to(STATIC).as_posix(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js"))}
    imports = {f"page/{name}": f"data:text/javascript;base64,{_encoded(name, text)}" for name, text in modules.items()}
    icon = f"data:image/svg+xml;base64,{b64encode((STATIC / 'icon.svg').read_bytes()).decode('ascii')}"
    styles = "".join(path.read_text("utf-8") for path in sorted((STATIC / "style").glob("*.css")))
    head = (
        f'    <meta http-equiv="Content-Security-Policy" content="{_POLICY}" />\n'
        f'    <link rel="icon" href="{icon}" type="image/svg+xml" />\n'
        f"    <style>{styles.replace('../icon.svg', icon)}</style>\n"
        f'    <script type="application/json" id="saved">{_json(saved)}</script>\n'
        f'    <script type="importmap">{_json({"imports": imports})}</script>\n'
        '    <script type="module">import "page/main.js";</script>\n'
    )
    page, count = _HEAD.subn(lambda _: head, (STATIC / "index.html").read_text("utf-8"))
    assert count == 1, "index.html has another head"
    return page.replace(' href="./"', "")


def _encoded(name: str, text: str) -> str:
    """A module whose imports have names, not addresses relative to its own."""
    named = _IMPORTED.sub(lambda found: f'"page/{normpath(f"{dirname(name)}/{found[1]}".lstrip("/"))}"', text)
    return b64encode(named.encode()).decode("ascii")


def _json(value: Json) -> str:
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
