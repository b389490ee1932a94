"""The page of guarantees names code and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
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


def product_words(*, but: Path) -> set[str]:
    """The names in the modules of the product, without one module."""
    return {word for path, words in words_by_module().items() if path != but for word in words}


@cache
def words_by_module() -> dict[Path, frozenset[str]]:
    paths = [path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py")]
    return {path: frozenset(re.findall(r"\w+", path.read_text("utf-8"))) for path in paths}


def uses_itself(path: Path, name: str) -> bool:
    """Whether a module uses a name that it defines."""
    return len(re.findall(rf"\b{name}\b", path.read_text("utf-8"))) > 1


@pytest.mark.parametrize("promise", PROMISES)
def test_the_code_that_keeps_a_promise_is_used(promise: str) -> None:
    """By another module, or by the rest of its own."""
    unused = [
        f"{module}: {name}"
        for module, name in CODE.findall(PROMISES[promise])
        if (path := module_path(module)) is not None
        and (last := name.rpartition(".")[2]) not in product_words(but=path)
        and not uses_itself(path, last)
    ]
    assert unused == []


def is_in_gate(path: Path, name: str) -> bool:
    """Whether a test runs without `--full`, in part at least: neither it nor its module is marked `full` as a whole."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and "pytestmark" in defined_by(node) and "mark.full" in ast.unparse(node.value):
            return False
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return not any(ast.unparse(one) == "pytest.mark.full" for one in node.decorator_list)
    return False


@pytest.mark.parametrize("promise", PROMISES)
def test_a_test_of_the_gate_guards_each_promise(promise: str) -> None:
    assert any(is_in_gate(ROOT / path, name) for path, name in TESTS.findall(PROMISES[promise]))


def test_every_entry_of_the_page_is_looked_up() -> None:
    entries = re.findall(r"^\* .*$", PAGE, re.MULTILINE)
    assert [entry for entry in entries if not CODE.match(entry) and not TESTS.match(entry)] == []


def test_a_name_that_does_not_exist_is_seen() -> None:
    path = module_path("lakelog.filestore.metadata.snapshots.snapshot_manager")
    assert path is not None
    assert "SnapshotManager.create_new" in names_of(path)
    assert "SnapshotManager.create_newer" not in names_of(path)
    assert module_path("lakelog.filestore.metadata.snapshot_managers") is None
