"""The graph of fields as an SVG: a box for each dataset with its fields, and a line for each edge.

Names come from others: they are escaped, and long ones are cut; a tooltip shows them whole. The picture has no script,
no font, and no address except that of SVG.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lakelog.common.quoting import printable
from lakelog.lineage.columns.questions.dataset_graph import FieldGraph, GraphDataset, GraphEdge
from lakelog.lineage.pictures.layout import Box, Layout, Point, layout

FIELDS_MAX = 40  # of a box
NAME_MAX = 32
_WIDTH, _ROW, _HEAD, _MARGIN = 250.0, 18.0, 42.0, 16.0
_STYLE = """
    text { font: 12.5px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
    .name { font-weight: 600; } .small { font-size: 11px; fill: #59636e; } .gone { text-decoration: line-through; }
    .page { fill: #ffffff; } rect { stroke-width: 1.5; }
    .table { fill: #dafbe1; stroke: #1a7f37; } .asked { stroke-width: 3; } .foreign { fill: #ddf4ff; stroke: #0969da; }
    .line { fill: none; stroke: #59636e; stroke-width: 1.3; } .indirect { stroke-dasharray: 5 4; }
    .opaque { stroke: #9a6700; stroke-dasharray: 2 3; } .whole { stroke-width: 2.5; }
    .head { fill: #59636e; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; } .small { fill: #a9b4c0; } .page { fill: #0d1117; }
      .table { fill: #12331d; stroke: #3fb950; } .foreign { fill: #0c2d4d; stroke: #58a6ff; }
      .line { stroke: #a9b4c0; } .opaque { stroke: #d29922; } .head { fill: #a9b4c0; }
    }
"""


def fields_svg(graph: FieldGraph) -> str:
    """The picture, an SVG document."""
    boxes = [Box(width=_WIDTH, height=_HEAD + _ROW * len(_shown(one)) + 6) for one in graph.datasets]
    arrows = sorted({(one.source, one.target) for one in graph.edges if one.source != one.target})
    return "\n".join(_document(graph, boxes, layout(boxes, arrows))) + "\n"


def _document(graph: FieldGraph, boxes: list[Box], found: Layout) -> Iterator[str]:
    width, height = found.width + 4 * _MARGIN, found.height + 2 * _MARGIN
    asked = escape(printable(".".join([*graph.datasets[0].dataset.dataset, *([graph.field] if graph.field else [])])))
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="Lineage of {asked}">'
    )
    yield f"  <title>Lineage of {asked}</title>"
    yield f"  <style>{_STYLE}  </style>"
    yield (
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    )
    yield f'  <rect class="page" width="{width:.0f}" height="{height:.0f}"/>'
    yield f'  <g transform="translate({2 * _MARGIN:.0f} {_MARGIN:.0f})">'
    for dataset, box, corner in zip(graph.datasets, boxes, found.corners, strict=True):
        yield from _box(dataset, box, corner)
    for edge in graph.edges:
        yield _line(graph, edge, found)
    yield "  </g>"
    yield "</svg>"


def _box(one: GraphDataset, box: Box, corner: Point) -> Iterator[str]:
    css = f"{'table' if one.dataset.is_present else 'foreign'}{' asked' if one.hop == 0 else ''}"
    title = escape(printable(".".join(one.dataset.dataset)))
    yield f"    <g><title>{title}</title>"
    yield (
        f'      <rect class="{css}" x="{corner.x:.1f}" y="{corner.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6"/>'
    )
    for css, text, below in (("name", one.dataset.name, 17.0), ("small", one.dataset.namespace, 33.0)):
        place = f'x="{corner.x + 10:.1f}" y="{corner.y + below:.1f}"'
        yield f'      <text class="{css}" {place}>{escape(_short(text))}</text>'
    for row, name in enumerate(_shown(one)):
        css = "gone" if row < len(one.fields) and one.fields[row].state == "dropped" else ""
        height = corner.y + _HEAD + _ROW * row + 12
        yield (
            f'      <text class="{css}" x="{corner.x + 10:.1f}" y="{height:.1f}">{escape(_short(name))}'
            f"<title>{escape(printable(name))}</title></text>"
        )
    yield "    </g>"


def _line(graph: FieldGraph, edge: GraphEdge, found: Layout) -> str:
    start = _end(graph.datasets[edge.source], edge.source_field, found.corners[edge.source])
    end = _end(graph.datasets[edge.target], edge.target_field, found.corners[edge.target])
    css = "line"
    css += " opaque" if edge.is_opaque else "" if edge.is_direct else " indirect"
    css += " whole" if edge.target_field is None else ""
    title = escape(printable(f"{edge.source_field} to {edge.target_field or 'all fields'}: {', '.join(edge.kinds)}"))
    out, into = start.x + _WIDTH, end.x
    bend = max(40.0, abs(into - out) / 2)
    path = (
        f"M{out:.1f} {start.y:.1f} C{out + bend:.1f} {start.y:.1f} {into - bend:.1f} {end.y:.1f} {into:.1f} {end.y:.1f}"
    )
    return f'    <path class="{css}" marker-end="url(#head)" d="{path}"><title>{title}</title></path>'


def _end(one: GraphDataset, field: str | None, corner: Point) -> Point:
    """Where the lines of a field begin and end; those for all fields do so at the name of the dataset."""
    names = [each.name for each in one.fields]
    row = min(names.index(field), FIELDS_MAX) if field in names else -1
    return Point(x=corner.x, y=corner.y + (_HEAD + _ROW * row + 8 if row >= 0 else _HEAD / 2))


def _shown(one: GraphDataset) -> list[str]:
    names = [each.name for each in one.fields]
    more = len(names) - FIELDS_MAX
    return names if more <= 0 else [*names[:FIELDS_MAX], f"{more} more"]


def _short(text: str) -> str:
    text = printable(text[: 10 * NAME_MAX])
    return text if len(text) <= NAME_MAX else f"{text[: NAME_MAX // 2]}\u2026{text[-NAME_MAX // 2 + 1 :]}"
