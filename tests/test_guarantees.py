"""The page of guarantees names code and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
SOURCE_ROOTS = ("common", "filestore", "logstore", "connector")
CODE = re.compile(r"^\* `(lakelog(?:\.\w+)+): ([\w.]+)`", re.MULTILINE)
TESTS = re.compile(r"^\* `(tests/[\w/]+\.py): (\w+)`", re.MULTILINE)
PROMISES = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def names_of(path: Path) -> set[str]:
    """What a module defines at its top, and the members of its classes as `Class.member`."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        found |= defined_by(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for member in node.body for name in defined_by(member)}
    return found


def defined_by(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case _:
            return set()


def module_path(module: str) -> Path | None:
    """The file of a module of lakelog; None when no source root has it."""
    relative = module.replace(".", "/")
    paths = [ROOT / root / f"{relative}{end}" for root in SOURCE_ROOTS for end in (".py", "/__init__.py")]
    return next((path for path in paths if path.exists()), None)


@pytest.mark.parametrize("promise", PROMISES)
def test_the_code_that_keeps_a_promise_exists(promise: str) -> None:
    named = CODE.findall(PROMISES[promise])
    missing = [
        f"{module}: {name}"
        for module, name in named
        if (path := module_path(module)) is None or name not in names_of(path)
    ]
    assert named
    assert missing == []


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_that_guard_a_promise_exist(promise: str) -> None:
    named = TESTS.findall(PROMISES[promise])
    missing = [
        f"{path}: {name}" for path, name in named if not (ROOT / path).exists() or name not in names_of(ROOT / path)
    ]
    assert named
    assert missing == []


def test_every_entry_of_the_page_is_looked_up() -> None:
    entries = re.findall(r"^\* .*$", PAGE, re.MULTILINE)
    assert [entry for entry in entries if not CODE.match(entry) and not TESTS.match(entry)] == []


def test_a_name_that_does_not_exist_is_seen() -> None:
    path = module_path("lakelog.filestore.metadata.snapshots.snapshot_manager")
    assert path is not None
    assert "SnapshotManager.create_new" in names_of(path)
    assert "SnapshotManager.create_newer" not in names_of(path)
    assert module_path("lakelog.filestore.metadata.snapshot_managers") is None
