"""Which part may know which, as data, held against every import in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = ("common", "filestore", "logstore", "connector")

# Each part may import the parts after it in its line, and nothing else of lakelog.
ARROWS: dict[str, frozenset[str]] = {
    "common": frozenset(),
    "filestore": frozenset({"common"}),
    "logstore": frozenset({"common"}),
    "protocol": frozenset({"common", "filestore", "logstore"}),
    "catalog": frozenset({"common", "filestore", "logstore", "protocol"}),
    "lineage": frozenset({"common", "filestore", "logstore", "protocol", "catalog"}),
    "spark": frozenset({"common", "filestore", "logstore", "protocol", "catalog", "lineage"}),
    "sql": frozenset({"common", "filestore", "logstore", "protocol", "catalog", "lineage", "spark"}),
    "cli": frozenset({"common", "filestore", "logstore", "protocol", "catalog", "lineage", "spark", "sql"}),
}
# The rooms of a part, the lowest first: a room may import those before it and, where `BASE` says so, the part's own
# modules, which are below the rooms then and above them otherwise.
ROOMS: dict[str, tuple[str, ...]] = {
    "filestore": (
        "options",
        "io",
        "encoding",
        "schema",
        "formats",
        "metadata",
        "predicate",
        "merge",
        "index",
        "data",
        "commit",
        "read",
        "write",
        "compact",
        "expire",
        "alter",
        "refs",
        "system",
        "verbs",
    ),
    "logstore": ("codec", "kafka", "broker"),
    "spark": ("source", "compaction", "sink", "ingesting"),
}
BASE = {
    "filestore": frozenset[str](),
    "logstore": frozenset({"client_settings", "errors", "harmless_settings", "options"}),
    "spark": frozenset(
        {
            "align_options",
            "failures",
            "log_offsets",
            "log_options",
            "logging_level",
            "normalize_option",
            "options",
            "projection",
            "session",
            "shown_range",
            "shown_state",
            "stop_options",
            "system_read",
            "tables",
            "types",
            "worker",
        }
    ),
}
LINES_MAX = 300  # of a module without a reason in CONTRIBUTING.md
# Libraries that one part keeps to itself.
OWNERS = {
    "confluent_kafka": "logstore",
    "pyspark": "spark",
    "py4j": "spark",
    "typer": "cli",
    "rich": "cli",
    "fastavro": "filestore",
    "obstore": "filestore",
    "openlineage": "lineage",
}
# Spark finds this module by its name; it belongs to the part spark.
DISCOVERED = ROOT / "connector" / "pyspark_lakelog.py"


def modules() -> Iterator[tuple[str, Path]]:
    """Every source file with the part that it belongs to."""
    for root in SOURCE_ROOTS:
        for part in sorted((ROOT / root / "lakelog").iterdir()):
            for path in sorted(part.rglob("*.py")):
                yield part.name, path
    if DISCOVERED.exists():
        yield "spark", DISCOVERED


def folder_of(part: str) -> Path:
    return next(ROOT / root / "lakelog" / part for root in SOURCE_ROOTS if (ROOT / root / "lakelog" / part).is_dir())


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, at any depth of its code."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_arrows_point_down_only() -> None:
    order = list(ARROWS)
    assert all(order.index(target) < order.index(part) for part, targets in ARROWS.items() for target in targets)


def test_every_part_has_its_arrows() -> None:
    assert {part for part, _ in modules()} <= ARROWS.keys()


def test_parts_import_along_the_arrows() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for part, path in modules()
        for name in imports(path)
        if name.startswith("lakelog.") and name.split(".")[1] not in ARROWS[part] | {part}
    ]
    assert wrong == []


def room_of(part: str, name: str) -> int:
    """How high a module of a part stands: the number of its room, -1 below the rooms, a larger one above them."""
    if name in ROOMS[part]:
        return ROOMS[part].index(name)
    return -1 if name in BASE[part] else len(ROOMS[part])


@pytest.mark.parametrize("part", ROOMS)
def test_rooms_import_rooms_below_them(part: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for of, path in modules()
        if of == part and path != DISCOVERED and path.name != "__init__.py"
        for name in imports(path)
        if name.startswith(f"lakelog.{part}.")
        and room_of(part, name.split(".")[2]) > room_of(part, path.relative_to(folder_of(part)).parts[0].split(".")[0])
    ]
    assert wrong == []


@pytest.mark.parametrize("part", ROOMS)
def test_every_room_has_its_place(part: str) -> None:
    folders = {path.parent.name for path in folder_of(part).glob("*/__init__.py")}
    assert folders == set(ROOMS[part])


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_has_one_importer(library: str) -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for part, path in modules()
        if part != OWNERS[library] and any(name.split(".")[0] == library for name in imports(path))
    ]
    assert wrong == []


def test_nothing_outside_the_parts_is_imported_from_them() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for _, path in modules()
        for name in imports(path)
        if name.split(".")[0] in {"tests", "benchmarks", "demo", "scripts"}
    ]
    assert wrong == []


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_no_root_hides_the_others(root: str) -> None:
    assert not (ROOT / root / "lakelog" / "__init__.py").exists()


def test_every_part_is_a_typed_package() -> None:
    folders = {path for root in SOURCE_ROOTS for path in (ROOT / root / "lakelog").iterdir() if path.is_dir()}
    lacking = [str(folder) for folder in folders if not (folder / "py.typed").exists()]
    assert lacking == []


def test_the_time_since_1970_is_asked_for_in_one_module() -> None:
    asking = [path.relative_to(ROOT) for _, path in modules() if "time.time_ns" in path.read_text(encoding="utf-8")]
    assert asking == [Path("common/lakelog/common/clock.py")]


def test_a_module_of_many_lines_has_its_reason() -> None:
    """CONTRIBUTING.md says why a long module is one; a module that was cut leaves the table."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Sizes\n")[2].partition("\n## ")[0]
    reasons = dict(re.findall(r"^\| `([\w/]+\.py)` \| (\S.*) \|$", section, re.MULTILINE))
    long = {
        str(path.relative_to(ROOT)) for _, path in modules() if len(path.read_text("utf-8").splitlines()) > LINES_MAX
    }
    assert reasons.keys() == long
