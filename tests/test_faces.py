"""The names that users import: each face's members, and that the pages name nothing deeper."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.common import errors

ROOT = Path(__file__).parent.parent
ERRORS = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
CHANGES = {
    "AddColumn",
    "DropColumn",
    "Place",
    "Position",
    "RemoveOption",
    "RenameColumn",
    "SchemaChange",
    "SetComment",
    "SetDefault",
    "SetNullability",
    "SetOption",
    "SetTableComment",
    "UpdateColumnPosition",
    "UpdateColumnType",
}
FACES = {
    "lakelog.catalog": {
        "BranchConflictError",
        "BranchMerge",
        "Catalog",
        "CommitListener",
        "Table",
        "TableLog",
        "TableMerge",
        "open_table",
    }
    | CHANGES
    | ERRORS,
    "lakelog.filestore": {"CommitKind", "FileStoreTable", "Snapshot", "TableSchema", "build_schema"},
    "lakelog.lineage": {
        "ConsistentSnapshots",
        "Dataset",
        "FeedResult",
        "FieldAnswer",
        "FieldOperation",
        "Job",
        "NotConsistentError",
        "OperationInput",
        "OperationKind",
        "RebuildResult",
        "Tainted",
        "TaintedFields",
        "UnreadableTable",
        "consistent_snapshots",
        "delete_job",
        "downstream",
        "end_job",
        "feed",
        "impact",
        "field_index",
        "fields",
        "jobs",
        "known_edges",
        "lineage_graph",
        "made_from",
        "mended",
        "rebuild",
        "table_graph",
        "tainted",
        "tainted_fields",
        "unreadable_tables",
        "upstream",
    },
    "lakelog.lineage.openlineage": {"Engine", "OpenLineageEmitter"},
    "lakelog.sql": {"SqlConnection", "connect"},
    "lakelog.spark": {
        "CommitListener",
        "LakelogSink",
        "attach",
        "detach",
        "bucket_column",
        "compact",
        "consistent_read",
        "declare_inputs",
        "error_of",
        "ingest",
        "merge",
        "progress_with_commits",
        "read",
        "read_streams",
        "register",
        "replay_dead_letters",
        "write",
        "write_stream",
    },
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def imported(page: Path) -> Iterator[tuple[str, str]]:
    """What the Python of a page imports of lakelog: (module, name)."""
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lakelog"):
                yield from ((node.module or "", alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names if alias.name.startswith("lakelog"))


@pytest.mark.parametrize("face", FACES)
def test_a_face_has_these_members(face: str) -> None:
    module = importlib.import_module(face)
    assert set(module.__all__) == FACES[face]
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_from_faces_alone(page: Path) -> None:
    deeper = [(module, name) for module, name in imported(page) if name not in FACES.get(module, set()) | {""}]
    assert deeper == []
    assert {module for module, _ in imported(page)} <= FACES.keys()
