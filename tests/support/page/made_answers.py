"""What the API of the page answers of a made lineage: the same JSON as the server of lakelog gives."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from tests.support.page.made_world import DAY, Field, MadeEdge, Name, World

Query = Mapping[str, str]
SNAPSHOTS = 60
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": DAY}


class MadeAnswers:
    """The answers, by the path of the question."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_path: Mapping[str, Callable[[Query], object]] = {
            "/api/search": self.search,
            "/api/graph": self.graph,
            "/api/edge": self.edge,
            "/api/dataset": self.dataset,
            "/api/impact": self.impact,
        }
        self._with_lineage = {edge.source for edge in world.edges} | {
            (*edge.target, edge.column) for edge in world.edges if edge.column
        }

    def search(self, query: Query) -> object:
        """Datasets and columns whose name contains the string."""
        asked, limit, offset = query.get("q", "").lower(), int(query.get("limit", "50")), int(query.get("offset", "0"))
        found: list[dict[str, object]] = [
            {"ns": ns, "dataset": name, "field": None, "type": None, "foreign": (ns, name) in self.world.foreign, "hasLineage": True}
            for ns, name in self.world.columns
            if asked in name.lower()
        ]
        if asked:
            found += [
                {"ns": ns, "dataset": name, "field": column, "type": kind, "foreign": (ns, name) in self.world.foreign,
                 "hasLineage": (ns, name, column) in self._with_lineage}
                for (ns, name), columns in self.world.columns.items()
                for column, kind in columns.items()
                if asked in column.lower()
            ]  # fmt: skip
        return {"total": len(found), "results": found[offset : offset + limit]}

    def graph(self, query: Query) -> object:
        """The datasets and edges around a dataset or a column."""
        root = query["ns"], query["dataset"]
        if root not in self.world.columns:
            raise LookupError(f"there is no dataset {root[1]!r} in {root[0]!r}")
        column = query.get("field") or None
        edges = [edge for edge in self.world.edges if _in_time(edge, query)]
        if query.get("kinds") == "direct":
            edges = [edge for edge in edges if edge.is_direct]
        depth, limit = int(query.get("depth", "2")), int(query.get("limit", "60"))
        hops: dict[Name, int] = {root: 0}
        kept: list[MadeEdge] = []
        for sign, asked in ((-1, "up"), (1, "down")):
            if query.get("direction", "both") in (asked, "both"):
                kept += self._reached(edges, root, column, sign, depth, hops)
        kept = list(dict.fromkeys(kept))
        answer: dict[str, object] = {
            "root": {"ns": root[0], "dataset": root[1], "field": column},
            "total": len(hops),
            "limit": limit,
            "tooMany": len(hops) > limit,
        }
        if len(hops) > limit:
            neighbours = [
                {"ns": ns, "dataset": name, "hop": hop, "fields": _fields_of((ns, name), kept)}
                for (ns, name), hop in sorted(hops.items(), key=lambda pair: (abs(pair[1]), pair))
                if hop
            ]
            return answer | {
                "datasets": [self._box(root, 0, 0, [], edges, {root})],
                "edges": [],
                "datasetEdges": [],
                "neighbours": neighbours,
            }
        ids = {name: at for at, name in enumerate(hops)}
        return answer | {
            "datasets": [self._box(name, at, hops[name], kept, edges, hops) for name, at in ids.items()],
            "edges": [_edge_json(edge, ids) for edge in kept if edge.column],
            "datasetEdges": [
                {"source": [ids[edge.source[:2]], edge.source[2]], "target": ids[edge.target], "kinds": list(edge.kinds)}
                for edge in kept
                if not edge.column
            ],
        }

    def _reached(
        self, edges: Iterable[MadeEdge], root: Name, column: str | None, sign: int, depth: int, hops: dict[Name, int]
    ) -> Iterable[MadeEdge]:
        front: set[Field] = {(*root, name) for name in self.world.columns[root] if column in (None, name)}
        by_end: dict[Field | Name, list[MadeEdge]] = {}
        for edge in edges:
            end: Field | Name = edge.source
            if sign < 0:
                end = (*edge.target, edge.column) if edge.column else edge.target
            by_end.setdefault(end, []).append(edge)
        seen = set(front)
        for hop in range(1, depth + 1):
            ends: set[Field | Name] = set(front)
            if sign < 0:
                ends |= {(ns, name) for ns, name, _ in front}
            after: set[Field] = set()
            for edge in (edge for end in sorted(ends) for edge in by_end.get(end, ())):
                yield edge
                other = edge.source[:2] if sign < 0 else edge.target
                hops.setdefault(other, sign * hop)
                if sign < 0:
                    after.add(edge.source)
                else:
                    names = [edge.column] if edge.column else list(self.world.columns[other])
                    after |= {(*other, name) for name in names}
            front = after - seen
            seen |= front

    def _box(
        self, name: Name, at: int, hop: int, kept: Iterable[MadeEdge], edges: Iterable[MadeEdge], drawn: Iterable[Name]
    ) -> dict[str, object]:
        columns = self.world.columns[name]
        shown = {edge.source[2] for edge in kept if edge.source[:2] == name}
        shown |= {edge.column for edge in kept if edge.target == name and edge.column}
        box: dict[str, object] = {
            "id": at,
            "ns": name[0],
            "dataset": name[1],
            "foreign": name in self.world.foreign,
            "hop": hop,
            "fieldCount": len(columns),
            "shown": len(shown),
            "fields": [self._field(name, column) for column in columns if column in shown],
            "moreUp": any(edge.target == name and edge.source[:2] not in drawn for edge in edges),
            "moreDown": any(edge.source[:2] == name and edge.target not in drawn for edge in edges),
        }
        if name in self.world.tainted:
            first, clean = self.world.tainted[name]
            box["tainted"] = {"from": first, "lastClean": clean}
        return box

    def _field(self, name: Name, column: str) -> dict[str, object]:
        row: dict[str, object] = {
            "name": column,
            "type": self.world.columns[name][column],
            "state": "present",
            "generated": False,
        }
        return row | ({"tainted": True} if (*name, column) in self.world.tainted_fields else {})

    def edge(self, query: Query) -> object:
        """The writes that made one column from another."""
        source = query["fromNs"], query["fromDataset"], query["fromField"]
        target, column = (query["toNs"], query["toDataset"]), query.get("toField") or None
        found = [
            edge for edge in self.world.edges if (edge.source, edge.target, edge.column) == (source, target, column)
        ]
        return {"writes": [_write(edge) for edge in found]}

    def dataset(self, query: Query) -> object:
        """The columns, snapshots, tags and branches of a dataset."""
        name = query["ns"], query["dataset"]
        before, limit = int(query.get("before", SNAPSHOTS + 1)), int(query.get("limit", "50"))
        ids = [] if name in self.world.foreign else range(before - 1, max(before - 1 - limit, 0), -1)
        tainted = self.world.tainted.get(name)
        jobs = [edge for edge in self.world.edges if edge.target == name]
        snapshots = [_snapshot(at, jobs, None if tainted is None else tainted[0]) for at in ids]
        return {
            "ns": name[0],
            "dataset": name[1],
            "fields": [
                {"name": column, "type": kind, "id": at, "hasLineage": (*name, column) in self._with_lineage}
                for at, (column, kind) in enumerate(self.world.columns[name].items())
            ],
            "snapshots": snapshots,
            "next": ids[-1] if len(ids) == limit and ids[-1] > 1 else None,
            "tags": [{"name": "month_end", "snapshot": 30}, {"name": "v1", "snapshot": 8}] if ids else [],
            "branches": ["audit"] if ids else [],
        }

    def impact(self, query: Query) -> object:
        """What is made of a column, hop by hop."""
        front: set[Field] = {(query["ns"], query["dataset"], query["field"])}
        rows = []
        seen = set(front)
        for hop in range(1, int(query.get("depth", "20")) + 1):
            found = [edge for edge in self.world.edges if edge.source in front and edge.column]
            front = {(*edge.target, edge.column) for edge in found if edge.column} - seen
            seen |= front
            rows += [
                {"ns": ns, "dataset": name, "field": column, "hop": hop, "direct": True,
                 "kinds": sorted({kind for edge in found if (*edge.target, edge.column) == (ns, name, column) for kind in edge.kinds}),
                 "jobs": sorted({edge.job for edge in found if (*edge.target, edge.column) == (ns, name, column)})}
                for ns, name, column in sorted(front)
            ]  # fmt: skip
        return {"rows": rows}


def _fields_of(name: Name, edges: Iterable[MadeEdge]) -> int:
    return len({edge.column for edge in edges if edge.target == name} | {edge.source for edge in edges if edge.source[:2] == name})


def _edge_json(edge: MadeEdge, ids: Mapping[Name, int]) -> dict[str, object]:
    return {
        "source": [ids[edge.source[:2]], edge.source[2]],
        "target": [ids[edge.target], edge.column],
        "kinds": list(edge.kinds),
        "masked": edge.masked,
        "direct": edge.is_direct,
        "approximate": edge.approximate,
        "opaque": edge.opaque,
    }


def _write(edge: MadeEdge) -> dict[str, object]:
    last = time.time() - edge.age_days * DAY
    end = {"origin": edge.source[1], "field": edge.source[2]}
    made = {"origin": edge.target[1], "field": edge.column}
    source, target = ({"ns": name[0], "dataset": name[1]} for name in (edge.source[:2], edge.target))
    operations = [
        {"kind": "READ", "name": f"read {edge.source[1]}", "description": "Reads the source.", "dataset": source, "inputs": [], "outputs": [end]},
        {"kind": "TRANSFORM", "name": f"make {edge.column}", "description": f"{edge.column} = {edge.kinds[0].lower()}({edge.source[2]})",
         "dataset": None, "inputs": [end], "outputs": [made]},
        {"kind": "WRITE", "name": f"write {edge.target[1]}", "description": "Writes the table.", "dataset": target, "inputs": [made], "outputs": []},
    ]  # fmt: skip
    runs = [
        {"run": f"7f0c2a{at:02}-5d1e-4a8f-9a70-3f6d2b9c1e4a", "query": edge.job, "firstBatch": at * 40, "lastBatch": at * 40 + 39,
         "firstTime": _iso(last - (at + 1) * DAY), "lastTime": _iso(last - at * DAY),
         "firstSnapshot": max(1, 25 - at * 10), "lastSnapshot": 34 - at * 10}
        for at in range(2)
    ]  # fmt: skip
    return {
        "checksum": "9b1c63f0d2", "job": edge.job, "operations": operations, "sql": edge.sql, "kinds": list(edge.kinds),
        "approximate": edge.approximate, "opaque": edge.opaque, "runs": runs,
    }  # fmt: skip


def _snapshot(at: int, jobs: list[MadeEdge], tainted_from: int | None) -> dict[str, object]:
    compacts = at % 7 == 0 or not jobs
    sources = sorted({".".join(edge.source[:2]) for edge in jobs})
    snapshot: dict[str, object] = {
        "id": at,
        "time": _iso(time.time() - (SNAPSHOTS - at) * DAY / 4),
        "job": None if compacts else jobs[0].job,
        "operation": "COMPACT" if compacts else "APPEND",
        "rows": None if compacts else at * 1_203,
        "sources": [] if compacts else [{"table": name, "from": at + 1, "to": at + 2} for name in sources],
        "tags": {30: ["month_end"], 8: ["v1"]}.get(at, []),
    }
    return snapshot | ({} if tainted_from is None else {"tainted": at >= tainted_from})


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _in_time(edge: MadeEdge, query: Query) -> bool:
    """Whether runs overlap the range: those of an edge end some days ago and began two days before."""
    last = time.time() - edge.age_days * DAY
    start, end = (_seconds(query[name]) if query.get(name) else None for name in ("start", "end"))
    return (start is None or last >= start) and (end is None or last - 2 * DAY < end)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+|now([+-]\d+(ms|s|m|h|d))*", text):
        raise ValueError(f"the time {text!r} is neither seconds nor an expression such as now-7d")
    if text[0].isdigit():
        return int(text)
    parts = re.findall(r"([+-]\d+)(ms|s|m|h|d)", text)
    return time.time() + sum(int(count) * SECONDS[unit] for count, unit in parts)
