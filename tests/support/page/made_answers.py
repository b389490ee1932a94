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
        found = [self._found(name, None, None) for name in self.world.columns if asked in name[1].lower()]
        if asked:
            found += [
                self._found(name, column, kind)
                for name, columns in self.world.columns.items()
                for column, kind in columns.items()
                if asked in column.lower()
            ]
        return {"total": len(found), "results": found[offset : offset + limit]}

    def _found(self, name: Name, column: str | None, kind: str | None) -> dict[str, object]:
        has_lineage = column is None or (*name, column) in self._with_lineage
        named = {"ns": name[0], "dataset": name[1], "field": column, "type": kind}
        return named | {"foreign": name in self.world.foreign, "hasLineage": has_lineage}

    def graph(self, query: Query) -> object:
        """The datasets and edges around a dataset or a column."""
        root, column = (query["ns"], query["dataset"]), query.get("field") or None
        if root not in self.world.columns:
            raise LookupError(f"there is no dataset {root[1]!r} in {root[0]!r}")
        edges = [edge for edge in self.world.edges if _in_time(edge, query)]
        if query.get("kinds") == "direct":
            edges = [edge for edge in edges if edge.is_direct]
        starts: set[Field] = {(*root, name) for name in self.world.columns[root] if column in (None, name)}
        walk = Walk(self.world, edges, int(query.get("depth", "2")))
        for side in ("up", "down"):
            if query.get("direction", "both") in (side, "both"):
                walk.go(starts, is_up=side == "up")
        hops, kept = {root: 0} | walk.hops, list(dict.fromkeys(walk.kept))
        limit = int(query.get("limit", "60"))
        answer: dict[str, object] = {
            "root": {"ns": root[0], "dataset": root[1], "field": column},
            "total": len(hops),
            "limit": limit,
            "tooMany": len(hops) > limit,
        }
        if len(hops) > limit:
            return answer | self._neighbours(root, hops, kept)
        ids = {name: at for at, name in enumerate(hops)}
        more_up = {edge.target for edge in edges if edge.source[:2] not in hops}
        more_down = {edge.source[:2] for edge in edges if edge.target not in hops}
        boxes = [self._box(name, at, hops[name], kept) for name, at in ids.items()]
        for box, name in zip(boxes, ids, strict=True):
            box |= {"moreUp": name in more_up, "moreDown": name in more_down}
        by_rows = [edge for edge in kept if not edge.column]
        return answer | {
            "datasets": boxes,
            "edges": [_edge_json(edge, ids) for edge in kept if edge.column],
            "datasetEdges": [
                {"source": _end(edge.source, ids), "target": ids[edge.target], "kinds": list(edge.kinds)}
                for edge in by_rows
            ],
        }

    def _neighbours(self, root: Name, hops: Mapping[Name, int], kept: Iterable[MadeEdge]) -> dict[str, object]:
        nearest = sorted(hops.items(), key=lambda pair: (abs(pair[1]), pair))
        return {
            "datasets": [self._box(root, 0, 0, []) | {"moreUp": True, "moreDown": True}],
            "edges": [],
            "datasetEdges": [],
            "neighbours": [
                {"ns": name[0], "dataset": name[1], "hop": hop, "fields": len(_columns_of(name, kept))}
                for name, hop in nearest
                if hop
            ],
        }

    def _box(self, name: Name, at: int, hop: int, kept: Iterable[MadeEdge]) -> dict[str, object]:
        columns, shown = self.world.columns[name], _columns_of(name, kept)
        box: dict[str, object] = {
            "id": at,
            "ns": name[0],
            "dataset": name[1],
            "foreign": name in self.world.foreign,
            "hop": hop,
            "fieldCount": len(columns),
            "shown": len(shown),
            "fields": [self._field(name, column) for column in columns if column in shown],
        }
        if name in self.world.tainted:
            first, clean = self.world.tainted[name]
            box["tainted"] = {"from": first, "lastClean": clean}
        return box

    def _field(self, name: Name, column: str) -> dict[str, object]:
        kind = self.world.columns[name][column]
        row: dict[str, object] = {"name": column, "type": kind, "state": "present", "generated": False}
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
        rows: list[object] = []
        seen = set(front)
        for hop in range(1, int(query.get("depth", "20")) + 1):
            found: dict[Field, list[MadeEdge]] = {}
            for edge in self.world.edges:
                if edge.source in front and edge.column and (*edge.target, edge.column) not in seen:
                    found.setdefault((*edge.target, edge.column), []).append(edge)
            front = set(found)
            seen |= front
            rows += [_impact_row(end, hop, found[end]) for end in sorted(front)]
        return {"rows": rows}


class Walk:
    """What is reached from some columns, hop by hop: the edges, and how far away each dataset is."""

    def __init__(self, world: World, edges: Iterable[MadeEdge], depth: int) -> None:
        self._world, self._edges, self._depth = world, list(edges), depth
        self.hops: dict[Name, int] = {}
        self.kept: list[MadeEdge] = []

    def go(self, starts: set[Field], *, is_up: bool) -> None:
        """Walk in one direction. What decides about rows is reached from each column of its dataset."""
        by_end: dict[Field | Name, list[MadeEdge]] = {}
        for edge in self._edges:
            target: Field | Name = (*edge.target, edge.column) if edge.column else edge.target
            by_end.setdefault(target if is_up else edge.source, []).append(edge)
        front, seen = set(starts), set(starts)
        for hop in range(1, self._depth + 1):
            ends: set[Field | Name] = set(front)
            if is_up:
                ends |= {(ns, name) for ns, name, _ in front}
            found = [edge for end in sorted(ends) for edge in by_end.get(end, ())]
            self.kept += found
            for edge in found:
                self.hops.setdefault(edge.source[:2] if is_up else edge.target, -hop if is_up else hop)
            front = {end for edge in found for end in ([edge.source] if is_up else self._made(edge))} - seen
            seen |= front

    def _made(self, edge: MadeEdge) -> list[Field]:
        columns = [edge.column] if edge.column else list(self._world.columns[edge.target])
        return [(*edge.target, column) for column in columns]


def _columns_of(name: Name, edges: Iterable[MadeEdge]) -> set[str]:
    made = {edge.column for edge in edges if edge.target == name and edge.column}
    return made | {edge.source[2] for edge in edges if edge.source[:2] == name}


def _end(source: Field, ids: Mapping[Name, int]) -> list[object]:
    return [ids[source[:2]], source[2]]


def _edge_json(edge: MadeEdge, ids: Mapping[Name, int]) -> dict[str, object]:
    return {
        "source": _end(edge.source, ids),
        "target": [ids[edge.target], edge.column],
        "kinds": list(edge.kinds),
        "masked": edge.masked,
        "direct": edge.is_direct,
        "approximate": edge.approximate,
        "opaque": edge.opaque,
    }


def _impact_row(end: Field, hop: int, edges: Iterable[MadeEdge]) -> dict[str, object]:
    kinds, jobs = {kind for edge in edges for kind in edge.kinds}, {edge.job for edge in edges}
    named = {"ns": end[0], "dataset": end[1], "field": end[2], "hop": hop}
    return named | {"direct": True, "kinds": sorted(kinds), "jobs": sorted(jobs)}


def _write(edge: MadeEdge) -> dict[str, object]:
    last = time.time() - edge.age_days * DAY
    end = {"origin": edge.source[1], "field": edge.source[2]}
    made = {"origin": edge.target[1], "field": edge.column}
    how = f"{edge.column} = {edge.kinds[0].lower()}({edge.source[2]})"
    operations = [
        _operation("READ", f"read {edge.source[1]}", "Reads the source.", edge.source[:2], [], [edge.source[2]]),
        _operation("TRANSFORM", f"make {edge.column}", how, None, [end], [edge.column or ""]),
        _operation("WRITE", f"write {edge.target[1]}", "Writes the table.", edge.target, [made], []),
    ]
    return {
        "checksum": "9b1c63f0d2",
        "job": edge.job,
        "operations": operations,
        "sql": edge.sql,
        "kinds": list(edge.kinds),
        "approximate": edge.approximate,
        "opaque": edge.opaque,
        "runs": [_run(edge.job, at, last) for at in range(2)],
    }


def _operation(kind: str, name: str, words: str, dataset: Name | None, *ends: list[object]) -> object:
    named = None if dataset is None else {"ns": dataset[0], "dataset": dataset[1]}
    made = {"kind": kind, "name": name, "description": words, "dataset": named}
    return made | dict(zip(("inputs", "outputs"), ends, strict=True))


def _run(job: str, at: int, last: float) -> dict[str, object]:
    return {
        "run": f"7f0c2a{at:02}-5d1e-4a8f-9a70-3f6d2b9c1e4a",
        "query": job,
        "firstBatch": at * 40,
        "lastBatch": at * 40 + 39,
        "firstTime": _iso(last - (at + 1) * DAY),
        "lastTime": _iso(last - at * DAY),
        "firstSnapshot": max(1, 25 - at * 10),
        "lastSnapshot": 34 - at * 10,
    }


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
