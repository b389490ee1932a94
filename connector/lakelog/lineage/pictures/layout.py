"""Places of boxes in a picture: layers from left to right, few crossings, and lines that pass between the boxes.

Boxes of a layer stand below each other. A line that skips layers passes through a place of its own in each of them.
Pure, and deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakelog.common.errors import UnsupportedError

SWEEPS = 8
LAYER_GAP = 46.0  # between the boxes of two layers
BOX_GAP = 18.0
PLACES_MAX = 10_000  # layers that lines pass, in total


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The size of a box."""

    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A position, from the top left corner of the picture."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutLine:
    """A line from box to box: level from the first point to the second, curved to the third, level again, and so on."""

    source: int
    target: int
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The top left corner of each box, the lines, and the size of the whole."""

    corners: Sequence[Point]
    lines: Sequence[LayoutLine]
    width: float
    height: float


def layout(boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes so that their arrows, from one to another, go from left to right where there is no cycle.

    Raises UnsupportedError for lines that pass too many layers.
    """
    back = _back_arrows(len(boxes), arrows)
    forward = [pair if place not in back else pair[::-1] for place, pair in enumerate(arrows)]
    layers = _layers(len(boxes), forward)
    _check_places(layers, forward)
    sizes = list(boxes)
    chains: list[list[int]] = []
    for one, other in forward:
        chain = [one]
        for layer in range(layers[one] + 1, layers[other]):
            chain.append(len(sizes))
            layers.append(layer)
            sizes.append(Box(width=0.0, height=0.0))
        chains.append([*chain, other])
    columns = _ordered(layers, chains)
    tops = _tops(columns, sizes, chains)
    ends = _ends(columns, sizes)
    corners = [Point(x=(sum(ends[layers[node]]) - sizes[node].width) / 2, y=tops[node]) for node in range(len(sizes))]
    lines: list[LayoutLine] = []
    for place, ((one, other), chain) in enumerate(zip(arrows, chains, strict=True)):
        levels = [tops[node] + sizes[node].height / 2 for node in chain]
        xs = [x for node in chain for x in ends[layers[node]]]
        xs[0], xs[-1] = corners[chain[0]].x + sizes[chain[0]].width, corners[chain[-1]].x
        points = [Point(x=x, y=levels[number // 2]) for number, x in enumerate(xs)]
        lines.append(LayoutLine(source=one, target=other, points=points[::-1] if place in back else points))
    return Layout(
        corners=corners[: len(boxes)],
        lines=lines,
        width=ends[-1][1] if ends else 0.0,
        height=max((tops[node] + box.height for node, box in enumerate(sizes)), default=0.0),
    )


def _check_places(layers: Sequence[int], arrows: Sequence[tuple[int, int]]) -> None:
    """Raise UnsupportedError for lines that pass through more layers than are laid out."""
    places = sum(layers[other] - layers[one] - 1 for one, other in arrows)
    if places > PLACES_MAX:
        raise UnsupportedError(
            f"a picture of {len(layers)} tables and jobs cannot be drawn: its lines pass {places} layers, at most "
            f"{PLACES_MAX} are allowed; ask for fewer tables, by depth= or --depth, or for the tree without a picture"
        )


def _back_arrows(count: int, arrows: Sequence[tuple[int, int]]) -> set[int]:
    """The indexes of arrows whose removal breaks all cycles: those to a box that a depth-first walk has not left."""
    leaving: dict[int, list[int]] = {}
    for place, (one, _) in enumerate(arrows):
        leaving.setdefault(one, []).append(place)
    back: set[int] = set()
    open_boxes: set[int] = set()
    done: set[int] = set()
    for start in range(count):
        stack = [] if start in done else [(start, iter(leaving.get(start, ())))]
        open_boxes.update(node for node, _ in stack)
        while stack:
            node, rest = stack[-1]
            place = next(rest, -1)
            if place < 0:
                stack.pop()
                open_boxes.discard(node)
                done.add(node)
                continue
            other = arrows[place][1]
            if other in open_boxes:
                back.add(place)
            elif other not in done:
                open_boxes.add(other)
                stack.append((other, iter(leaving.get(other, ()))))
    return back


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: after those of all its predecessors, as near as possible to those of its successors."""
    targets: dict[int, list[int]] = {}
    waiting = [0] * count
    for one, other in arrows:
        targets.setdefault(one, []).append(other)
        waiting[other] += 1
    layers = [0] * count
    ready = [node for node in range(count) if waiting[node] == 0]
    order: list[int] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for other in targets.get(node, ()):
            layers[other] = max(layers[other], layers[node] + 1)
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    has_before = {other for _, other in arrows}
    for node in reversed(order):
        if node not in has_before and node in targets:
            layers[node] = min(layers[other] for other in targets[node]) - 1
    return layers


def _ordered(layers: Sequence[int], chains: Iterable[Sequence[int]]) -> list[list[int]]:
    """The boxes of each layer in an order with few crossings: each near the middle of its neighbours."""
    columns: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node, layer in enumerate(layers):
        columns[layer].append(node)
    before, behind = _neighbours(chains)
    ranks: dict[int, float] = {}
    for column in columns:
        ranks |= _ranks(column)
    for sweep in range(SWEEPS):
        is_rightwards = sweep % 2 == 0
        beside = before if is_rightwards else behind
        for column in columns if is_rightwards else reversed(columns):
            column.sort(key=lambda node: _mean([ranks[other] for other in beside.get(node, ())], ranks[node]))
            ranks |= _ranks(column)
    return columns


def _ranks(column: Sequence[int]) -> dict[int, float]:
    """How far down each box of a layer is, from 0 to 1."""
    return {node: rank / len(column) for rank, node in enumerate(column)}


def _tops(columns: Sequence[Sequence[int]], sizes: Sequence[Box], chains: Iterable[Sequence[int]]) -> dict[int, float]:
    """The upper ends of the boxes: in order, as near the middle of their neighbours as the other boxes allow."""
    middles: dict[int, float] = {}
    for column in columns:
        top = 0.0
        for node in column:
            middles[node] = top + sizes[node].height / 2
            top += sizes[node].height + BOX_GAP
    before, behind = _neighbours(chains)
    for sweep in range(SWEEPS):
        beside = before if sweep % 2 == 0 else behind
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = [_mean([middles[other] for other in beside.get(node, ())], middles[node]) for node in column]
            middles |= dict(zip(column, _spread(wanted, [sizes[node].height for node in column]), strict=True))
    upmost = min((middle - sizes[node].height / 2 for node, middle in middles.items()), default=0.0)
    return {node: middle - sizes[node].height / 2 - upmost for node, middle in middles.items()}


def _spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Middles in the given order without overlap, near the wanted ones: groups that touch share their deviation."""
    groups: list[tuple[float, int, float]] = []  # the sum of where its first box would be, its boxes, its height
    for middle, height in zip(wanted, heights, strict=True):
        group = (middle - height / 2, 1, height + BOX_GAP)
        while groups and groups[-1][0] / groups[-1][1] + groups[-1][2] > group[0] / group[1]:
            first = groups.pop()
            group = (first[0] + group[0] - group[1] * first[2], first[1] + group[1], first[2] + group[2])
        groups.append(group)
    middles: list[float] = []
    for total, count, _ in groups:
        top = total / count
        for height in heights[len(middles) : len(middles) + count]:
            middles.append(top + height / 2)
            top += height + BOX_GAP
    return middles


def _ends(columns: Sequence[Sequence[int]], sizes: Sequence[Box]) -> list[tuple[float, float]]:
    """The left and the right end of each layer."""
    ends: list[tuple[float, float]] = []
    left = 0.0
    for column in columns:
        right = left + max((sizes[node].width for node in column), default=0.0)
        ends.append((left, right))
        left = right + LAYER_GAP
    return ends


def _neighbours(chains: Iterable[Sequence[int]]) -> tuple[Mapping[int, list[int]], Mapping[int, list[int]]]:
    """The neighbours of each box in the previous layer and in the next one."""
    before: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for chain in chains:
        for one, other in pairwise(chain):
            behind.setdefault(one, []).append(other)
            before.setdefault(other, []).append(one)
    return before, behind


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
