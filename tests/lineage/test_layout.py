"""Where boxes and lines of a picture are: apart from each other, and from left to right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakelog.lineage.pictures.layout import BOX_GAP, Box, Layout, layout

SLACK = 0.01
Arrows = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn, *, has_cycles: bool) -> tuple[list[Box], Arrows]:
    count = draw(st.integers(min_value=1, max_value=9))
    widths = st.sampled_from([20.0, 90.0, 300.0])
    boxes = [Box(width=draw(widths), height=draw(st.sampled_from([30.0, 48.0]))) for _ in range(count)]
    pairs = [
        (one, other) for one in range(count) for other in range(count) if one < other or (has_cycles and one > other)
    ]
    return boxes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []


def bottom(found: Layout, boxes: list[Box], place: int) -> float:
    return found.corners[place].y + boxes[place].height


@given(graphs(has_cycles=True))
def test_boxes_are_apart_and_inside(graph: tuple[list[Box], Arrows]) -> None:
    boxes, arrows = graph

    found = layout(boxes, arrows)

    for one, corner in enumerate(found.corners):
        assert corner.x >= -SLACK
        assert corner.y >= -SLACK
        assert corner.x + boxes[one].width <= found.width + SLACK
        assert bottom(found, boxes, one) <= found.height + SLACK
        for other in range(one):
            beside = found.corners[other]
            is_above = bottom(found, boxes, other) + BOX_GAP <= corner.y + SLACK
            is_below = bottom(found, boxes, one) + BOX_GAP <= beside.y + SLACK
            is_left = corner.x + boxes[one].width <= beside.x + SLACK
            is_right = beside.x + boxes[other].width <= corner.x + SLACK
            assert is_above or is_below or is_left or is_right


@given(graphs(has_cycles=False))
def test_arrows_without_a_cycle_go_from_left_to_right(graph: tuple[list[Box], Arrows]) -> None:
    boxes, arrows = graph

    found = layout(boxes, arrows)

    for line in found.lines:
        start, end = found.corners[line.source], found.corners[line.target]
        assert start.x + boxes[line.source].width <= end.x
        xs = [point.x for point in line.points]
        assert xs == sorted(xs)


@given(graphs(has_cycles=True))
def test_a_line_leaves_its_box_enters_the_other_and_passes_no_third(graph: tuple[list[Box], Arrows]) -> None:
    boxes, arrows = graph

    found = layout(boxes, arrows)

    assert [(line.source, line.target) for line in found.lines] == arrows
    for line in found.lines:
        for place, point in ((line.source, line.points[0]), (line.target, line.points[-1])):
            corner, box = found.corners[place], boxes[place]
            assert point.y == corner.y + box.height / 2
            assert point.x in (corner.x, corner.x + box.width)
        level = list(zip(line.points[::2], line.points[1::2], strict=True))
        curved = list(zip(line.points[1:-1:2], line.points[2:-1:2], strict=True))
        for one, other in [*level, *curved]:
            crossed = [
                place
                for place, (corner, box) in enumerate(zip(found.corners, boxes, strict=True))
                if place not in (line.source, line.target)
                and max(min(one.x, other.x), corner.x) < min(max(one.x, other.x), corner.x + box.width) - SLACK
                and max(min(one.y, other.y), corner.y) <= min(max(one.y, other.y), corner.y + box.height)
            ]
            assert crossed == []


@given(graphs(has_cycles=True))
def test_the_same_graph_has_the_same_places(graph: tuple[list[Box], Arrows]) -> None:
    boxes, arrows = graph

    assert layout(boxes, arrows) == layout(boxes, arrows)
