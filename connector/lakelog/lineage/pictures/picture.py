"""The graph around a table as an SVG: tables and jobs from left to right, readable on light and on dark pages.

Each job stands between what it reads and what it writes, once for each table that it writes. Names come from others:
they are escaped, and long ones are cut; a tooltip on the box shows them whole. The picture has no script, no font, and
no address except that of SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from lakelog.common.quoting import cut, printable
from lakelog.lineage.pictures.graph_parts import LineageJob, LineageLink, LineageNode
from lakelog.lineage.pictures.layout import Box, Layout, LayoutLine, layout
from lakelog.lineage.pictures.wording import job_lines, node_lines, reasons_of

NAME_MAX = 40  # characters of a name
TITLE_MAX = 2000
MARGIN = 16.0
LINE_HEIGHT = 17.0
_PADDING = 14.0
_BOLD = 1.08  # width relative to the same text in plain letters
_STYLE = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
    .name { font-weight: 600; } .small { font-size: 11.5px; fill: #59636e; }
    .page { fill: #ffffff; } rect { stroke-width: 1.5; }
    .table { fill: #dafbe1; stroke: #1a7f37; } .asked { stroke-width: 3; }
    .foreign { fill: #ddf4ff; stroke: #0969da; } .unknown { fill: #fff8c5; stroke: #9a6700; stroke-dasharray: 5 4; }
    .job { fill: #f6f8fa; stroke: #59636e; }
    .line { fill: none; stroke: #59636e; stroke-width: 1.5; } .inexact { stroke-dasharray: 5 4; }
    .head { fill: #59636e; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; } .small { fill: #a9b4c0; } .page { fill: #0d1117; }
      .table { fill: #12331d; stroke: #3fb950; } .foreign { fill: #0c2d4d; stroke: #58a6ff; }
      .unknown { fill: #3a2d0c; stroke: #d29922; } .job { fill: #21262d; stroke: #a9b4c0; }
      .line { stroke: #a9b4c0; } .head { fill: #a9b4c0; }
    }
"""
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A box: its class, its lines of text, and the whole text."""

    css: str
    lines: tuple[str, ...]
    title: str

    @property
    def box(self) -> Box:
        width = max(_BOLD * _width(self.lines[0]), *map(_width, self.lines)) + 2 * _PADDING
        return Box(width=round(width, 1), height=LINE_HEIGHT * len(self.lines) + _PADDING)


def lineage_svg(nodes: Sequence[LineageNode], jobs: Sequence[LineageJob], links: Sequence[LineageLink]) -> str:
    """The picture of a graph, an SVG document; the asked node is the first one."""
    reasons = reasons_of(links)
    boxes = [_node_box(node, place, reasons.get(place)) for place, node in enumerate(nodes)]
    places = {(job.sink, job.job): len(boxes) + number for number, job in enumerate(jobs)}
    arrows: dict[tuple[int, int], bool] = {}  # whether what is read is known exactly
    for link in links:
        arrow = link.source, places[link.sink, link.job]
        arrows[arrow] = arrows.get(arrow, True) and link.is_exact
    for job in jobs:
        arrows[places[job.sink, job.job], job.sink] = True
        first, *others = job_lines(job)
        boxes.append(_drawn("job", first, others))
    return "\n".join(_document(boxes, arrows, layout([one.box for one in boxes], list(arrows)))) + "\n"


def _document(boxes: list[_Drawn], arrows: dict[tuple[int, int], bool], found: Layout) -> Iterator[str]:
    width, height = found.width + 2 * MARGIN, found.height + 2 * MARGIN
    asked = escape(boxes[0].title.partition("\n")[0])
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="Lineage of {asked}">'
    )
    yield f"  <title>Lineage of {asked}</title>"
    yield f"  <style>{_STYLE}  </style>"
    yield (
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
    )
    yield f'  <rect class="page" width="{width:.0f}" height="{height:.0f}"/>'
    yield f'  <g transform="translate({MARGIN:.0f} {MARGIN:.0f})">'
    for line in found.lines:
        css = "line" if arrows[line.source, line.target] else "line inexact"
        yield f'    <path class="{css}" marker-end="url(#head)" d="{_path(line)}"/>'
    for drawn, corner in zip(boxes, found.corners, strict=True):
        yield from _box(drawn, corner.x, corner.y)
    yield "  </g>"
    yield "</svg>"


def _box(drawn: _Drawn, x: float, y: float) -> Iterator[str]:
    box = drawn.box
    round_by = box.height / 2 if drawn.css == "job" else 6
    yield f"    <g><title>{escape(drawn.title)}</title>"
    yield (
        f'      <rect class="{drawn.css}" x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{round_by:.1f}"/>'
    )
    for number, line in enumerate(drawn.lines):
        css = "small" if number else "name"
        height = y + _PADDING / 2 + LINE_HEIGHT * number + 12.5
        yield (
            f'      <text class="{css}" x="{x + box.width / 2:.1f}" y="{height:.1f}" text-anchor="middle">'
            f"{escape(line)}</text>"
        )
    yield "    </g>"


def _path(line: LayoutLine) -> str:
    """A curve, level at its ends and through the layers between them."""
    parts: list[str] = []
    for number, point in enumerate(line.points):
        if not number:
            parts.append(f"M{point.x:.1f} {point.y:.1f}")
        elif number % 2:
            parts.append(f"L{point.x:.1f} {point.y:.1f}")
        else:
            before = line.points[number - 1]
            middle = (before.x + point.x) / 2
            curve = f"C{middle:.1f} {before.y:.1f} {middle:.1f} {point.y:.1f} {point.x:.1f} {point.y:.1f}"
            parts.append(curve)
    return " ".join(parts)


def _node_box(node: LineageNode, place: int, why: str | None) -> _Drawn:
    css = f"{node.kind.value} asked" if place == 0 else node.kind.value
    first, *others = node_lines(node, why)
    return _drawn(css, first, others)


def _drawn(css: str, first: str, others: list[str]) -> _Drawn:
    lines = (_short(first), *map(_short, others))
    return _Drawn(css=css, lines=lines, title=cut("\n".join(map(printable, (first, *others))), TITLE_MAX))


def _short(text: str) -> str:
    """A string on one line; a long one without its middle, since the ends of names distinguish them."""
    text = printable(text[: 10 * NAME_MAX])
    return text if len(text) <= NAME_MAX else f"{text[: NAME_MAX // 2]}\u2026{text[-NAME_MAX // 2 + 1 :]}"


def _width(text: str) -> float:
    """The approximate width of a drawn string; rather too wide."""
    return sum(4.6 if one in _NARROW else 12.0 if one in _WIDE else 14.0 if ord(one) > 0x2E7F else 8.1 for one in text)
