"""Which part may know which, as data, held against every import in the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from lakelog.common.faces import names_of_stub

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = ("common", "filestore", "logstore", "connector")

# Each part may import those before it, but for the two stores, which do not know each other.
PARTS = (
    "common",
    "filestore",
    "logstore",
    "protocol",
    "streams",
    "warehouse",
    "lineage",
    "catalog",
    "spark",
    "sql",
    "cli",
)
ARROWS = {part: frozenset(PARTS[:number]) for number, part in enumerate(PARTS)} | {"logstore": frozenset({"common"})}
# The rooms of a part, and of a room that has some, the lowest first: a room may import those before it and, where
# `BASE` says so, the modules beside the rooms, which are below them then and above them otherwise.
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
    "filestore.formats": ("blocks", "avro", "orc", "parquet"),
    "filestore.metadata": ("manifests", "snapshots", "tables", "origins"),
    "filestore.read": ("duckdb",),
    "filestore.refs": ("states", "tags", "restore", "branches", "merges"),
    "logstore": ("codec", "kafka", "broker"),
    "logstore.kafka": ("clients", "records", "producers"),
    "protocol": ("access", "state", "stores", "writing", "statements", "upkeep", "life", "reading"),
    "streams": ("options", "reading", "phases"),
    "catalog": ("names", "columns", "logs", "refs", "tables", "verbs", "system", "procedures"),
    "lineage": ("records", "columns", "tables", "lines", "page", "answers", "openlineage", "server"),
    "lineage.columns": ("plans", "questions"),
    "spark": ("source", "capture", "compaction", "sink", "statements", "ingesting", "catalog_plugin"),
    "spark.catalog_plugin": ("java",),
    "spark.source": ("reading", "phases", "batch", "streams"),
    "sql": ("language", "fields", "queries", "statements"),
    "cli": ("console", "tables", "logs", "lineage"),
}
BASE = {
    "filestore.read": frozenset(path.stem for path in (ROOT / "filestore/lakelog/filestore/read").glob("*.py")),
    "lineage.columns": frozenset(
        {
            "dataset_names",
            "field_documents",
            "field_edges",
            "field_lineage",
            "field_operations",
            "field_runs",
            "known_fields",
        }
    ),
    "logstore": frozenset({"client_settings", "errors", "options"}),
    "spark": frozenset(
        {
            "failures",
            "read_ways",
            "logging_level",
            "options",
            "projection",
            "session",
            "shown_range",
            "system_read",
            "tables",
            "types",
            "worker",
        }
    ),
}
# Parts of which others import what the faces of their rooms have. What is known outside, by whatever face, is counted:
# the names, and the modules that define them. The numbers are ceilings that may only fall.
PLANNER = "connector/lakelog/streams/planner.py"
FOLLOW = ("connector/lakelog/streams/follower.py", "connector/lakelog/catalog/tables/following.py")
KNOWN_OUTSIDE = {"filestore": (147, 434), "protocol": (64, 146)}
LINES_MAX = 300  # of a module without a reason in CONTRIBUTING.md
FUNCTION_LINES_MAX = 60
LONG_FUNCTIONS = ["connector/lakelog/spark/ingesting/ingest.py: ingest"]  # passes on 25 arguments
MODULES_MAX = 20  # in a folder
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
    "starlette": "lineage",
    "uvicorn": "lineage",
}
# Spark finds this module by its name; it belongs to the part spark.
DISCOVERED = ROOT / "connector" / "pyspark_lakelog.py"


@cache
def modules() -> tuple[tuple[str, Path], ...]:
    """Every source file with the part that it belongs to."""
    folders = [part for root in SOURCE_ROOTS for part in sorted((ROOT / root / "lakelog").iterdir())]
    found = [(part.name, path) for part in folders for path in sorted(part.rglob("*.py"))]
    return (*found, *([("spark", DISCOVERED)] if DISCOVERED.exists() else []))


def folder_of(part: str) -> Path:
    return next(ROOT / root / "lakelog" / part for root in SOURCE_ROOTS if (ROOT / root / "lakelog" / part).is_dir())


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax of a file, which is parsed once."""
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The dotted names that a file imports, at any depth of its code."""
    found: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found + list(names_of_rooms(path, found)))


def names_of_rooms(path: Path, imported: Sequence[str]) -> Iterator[str]:
    """The names that a module uses of the rooms that it imports whole, as in `refs.rename_branch`."""
    rooms = {one.rpartition(".")[2]: one for one in imported if is_room(one)}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in rooms:
            yield f"{rooms[node.value.id]}.{node.attr}"


@cache
def is_room(name: str) -> bool:
    """Whether a dotted name is a package that has a stub."""
    return any((ROOT / root / name.replace(".", "/") / "__init__.pyi").exists() for root in SOURCE_ROOTS)


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


def names_of_face(package: str) -> set[str]:
    """What a room lets other parts import: the names in its stub, or in `__all__` of the package."""
    folder = folder_of_package(package.removeprefix("lakelog."))
    stub = folder / "__init__.pyi"
    if stub.exists():
        return set(names_of_stub(stub))
    assigned = (node for node in tree_of(folder / "__init__.py").body if isinstance(node, ast.Assign))
    return {
        name for node in assigned if ast.unparse(node.targets[0]) == "__all__" for name in ast.literal_eval(node.value)
    }


def used_of(part: str) -> set[tuple[str, str]]:
    """The modules of a part that others import from, in modules and in stubs of faces, each with the name."""
    faces = [(path.relative_to(ROOT).parts[2], path) for path in stubs()]
    names = (name for importer, path in [*modules(), *faces] if importer != part for name in imports(path))
    parts = (name.rpartition(".") for name in names if name.startswith(f"lakelog.{part}.") and not is_room(name))
    return {(module, name) for module, _, name in parts}


@pytest.mark.parametrize("part", KNOWN_OUTSIDE)
def test_other_parts_import_what_the_faces_of_a_part_have(part: str) -> None:
    used = used_of(part)
    faces = {module for module, _ in used if folder_of_package(module.removeprefix("lakelog.")).is_dir()}
    names = {face: names_of_face(face) for face in faces}
    assert sorted((module, name) for module, name in used if name not in names.get(module, ())) == []


def test_spark_s_source_and_follow_read_by_one_implementation() -> None:
    """The planner knows where a stream starts, how it goes on from a snapshot, what it heals, and older logs."""
    of_spark = {
        name for part, path in modules() if part == "spark" and "source" in path.parts for name in imports(path)
    }
    of_follow = {name for path in FOLLOW for name in imports(ROOT / path)}
    shared = {
        "lakelog.streams.planner.StreamPlanner",
        "lakelog.streams.reading.part_rows.PartRows",
        "lakelog.streams.reading.offsets.LogOffset",
        "lakelog.streams.reading.offsets.StartOffset",
    }
    assert shared <= of_spark & of_follow
    phases = {name for name in imports(ROOT / PLANNER) if name.startswith("lakelog.streams.phases.")}
    for what in ("stream_start.ReadStart", "stream_log.LogPhase", "stream_heal.Healer", "generations.Generations"):
        assert f"lakelog.streams.phases.{what}" in phases


@pytest.mark.parametrize("part", KNOWN_OUTSIDE)
def test_few_modules_and_names_of_a_part_are_known_outside(part: str) -> None:
    defined = {defining(module, name) for module, name in used_of(part)}
    modules_max, names_max = KNOWN_OUTSIDE[part]
    assert len({module for module, _ in defined}) <= modules_max
    assert len(defined) <= names_max


def defining(module: str, name: str) -> tuple[str, str]:
    """The module that a name of a face comes from, through as many faces as there are."""
    package = folder_of_package(module.removeprefix("lakelog."))
    face = next((path for path in (package / "__init__.pyi", package / "__init__.py") if path.exists()), None)
    if face is None:
        return module, name
    sources = (found.rpartition(".") for found in imports(face))
    return next((defining(source, name) for source, _, found in sources if found == name), (module, name))


def stubs() -> list[Path]:
    return [path for root in SOURCE_ROOTS for path in sorted((ROOT / root / "lakelog").rglob("__init__.pyi"))]


def test_a_stub_is_a_docstring_and_imports_of_one_name_each() -> None:
    """No type checker is there when a name is imported: another statement would not be read."""
    for stub in stubs():
        _docstring, *statements = tree_of(stub).body
        names = [alias for node in statements if isinstance(node, ast.ImportFrom) for alias in node.names]
        assert len(names) == len(statements) == len(names_of_stub(stub))
        assert all(alias.asname == alias.name for alias in names)


def test_a_room_has_no_name_that_no_other_part_imports() -> None:
    used = {name for part in KNOWN_OUTSIDE for name in used_of(part)}
    named = [(module_name(stub.with_suffix(".py")), name) for stub in stubs() for name in names_of_stub(stub)]
    assert [
        f"{package}: {name}" for package, name in named if package.count(".") > 1 and (package, name) not in used
    ] == []


def test_a_name_of_a_face_is_none_of_its_modules() -> None:
    """A module that was imported would stand in the package in place of the name."""
    inside = {stub: {path.stem for path in stub.parent.glob("*")} for stub in stubs()}
    assert [f"{stub}: {name}" for stub, names in inside.items() for name in names_of_stub(stub) if name in names] == []


def test_no_part_is_imported_by_a_string() -> None:
    """But for the names of a face, which are imported when they are used first."""
    texts = {path: path.read_text("utf-8") for _, path in modules()}
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if 'import_module("lakelog' in text] == []


def room_of(package: str, name: str) -> int:
    """How high a module stands: the number of its room, -1 below the rooms, a larger one above them."""
    if name in ROOMS[package]:
        return ROOMS[package].index(name)
    return -1 if name in BASE.get(package, ()) else len(ROOMS[package])


def folder_of_package(package: str) -> Path:
    part, *inner = package.split(".")
    return folder_of(part).joinpath(*inner)


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_rooms_below_them(package: str) -> None:
    folder = folder_of_package(package)
    prefix = f"lakelog.{package}."
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(folder.rglob("*.py"))
        if path.name != "__init__.py"
        for name in imports(path)
        if name.startswith(prefix)
        and room_of(package, name.removeprefix(prefix).split(".")[0])
        > room_of(package, path.relative_to(folder).parts[0].removesuffix(".py"))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_has_its_place(package: str) -> None:
    folders = {path.parent.name for path in folder_of_package(package).glob("*/__init__.py")}
    assert folders == set(ROOMS[package])


def test_the_page_of_the_rooms_is_current() -> None:
    """`scripts/rooms > docs/rooms.md` makes it."""
    made = subprocess.run([sys.executable, "-m", "scripts.rooms_page"], cwd=ROOT, capture_output=True, check=True)
    assert made.stdout.decode() == (ROOT / "docs" / "rooms.md").read_text("utf-8")
    arrows = made.stdout.decode().split("\n    ")[1].partition("\n")[0]
    for page in ("CONTRIBUTING.md", "docs/how-it-works.md"):
        assert f"\n    {arrows}\n" in (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("part", [*PARTS[:-3], "spark", "sql", "cli"])
def test_a_name_means_one_thing_in_a_part(part: str) -> None:
    """Of modules, but for the faces of rooms, and of classes that other modules may import."""
    paths = [path for path in folder_of(part).rglob("*.py") if path.name != "__init__.py"]
    classes = [
        node.name
        for path in paths
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    names = Counter([*(path.stem for path in paths), *classes])
    assert [name for name, count in names.items() if count > 1] == []


def test_a_folder_has_few_modules() -> None:
    counts = Counter(path.parent for _, path in modules() if path.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > MODULES_MAX} == {}


def test_a_function_fits_a_screen() -> None:
    """Its docstring is not counted."""
    functions = (
        (path, node)
        for _, path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    long = [(path, node.name) for path, node in functions if _lines_of(node) > FUNCTION_LINES_MAX]
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in long] == LONG_FUNCTIONS


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    of_docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - of_docstring


def test_modules_do_not_import_each_other() -> None:
    """Neither inside of functions, nor for types alone."""
    names = {module_name(path): path for _, path in modules()}
    known = {
        name: {target for found in imports(path) for target in _modules_in(found, names) if target != name}
        for name, path in names.items()
    }
    while free := [name for name, targets in known.items() if not targets & known.keys()]:
        for name in free:
            del known[name]
    assert sorted(name for name in known if _reaches(known, name)) == []


def module_name(path: Path) -> str:
    root = next(ROOT / root for root in SOURCE_ROOTS if path.is_relative_to(ROOT / root))
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _modules_in(name: str, names: Collection[str]) -> list[str]:
    """The module that an imported name is, or is defined in."""
    return [found for found in (name, name.rpartition(".")[0]) if found in names][:1]


def _reaches(known: Mapping[str, set[str]], name: str) -> bool:
    seen: set[str] = set()
    left = [*known[name]]
    while left:
        found = left.pop()
        if found not in seen and found in known:
            seen.add(found)
            left.extend(known[found])
    return name in seen


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
