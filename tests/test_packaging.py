"""The pins say exactly what is installed, whatever index serves it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PINS = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def requirements_of(path: Path) -> Mapping[str, set[str]]:
    """Package -> the lines that pin it, without their hashes."""
    pinned: dict[str, set[str]] = {}
    for line in path.read_text("utf-8").replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
            assert hashes, f"{path.name}: {requirement} has no hash"
            parsed = Requirement(requirement)
            assert [part.operator for part in parsed.specifier] == ["=="], f"{path.name}: {requirement} is no pin"
            pinned.setdefault(canonicalize_name(parsed.name), set()).add(str(parsed))
    return pinned


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_requirement_is_a_hashed_pin_and_names_no_index(path: Path) -> None:
    assert requirements_of(path)
    assert "://" not in path.read_text("utf-8")
    assert "--index" not in path.read_text("utf-8")


def test_development_has_the_versions_that_users_get() -> None:
    runtime = requirements_of(ROOT / "requirements" / "runtime.txt")
    development = requirements_of(ROOT / "requirements" / "dev.txt")
    differing = {name: (pins, development.get(name)) for name, pins in runtime.items() if pins != development.get(name)}
    assert differing == {}


def test_what_the_project_declares_is_pinned() -> None:
    project = PROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    runtime = {canonicalize_name(Requirement(line).name) for line in [*project["dependencies"], *extras]} - {"lakelog"}
    development = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependency-groups"]["dev"]}

    assert runtime <= requirements_of(ROOT / "requirements" / "runtime.txt").keys()
    assert runtime | development <= requirements_of(ROOT / "requirements" / "dev.txt").keys()


def test_the_extra_all_holds_every_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert Requirement(*extras["all"]).extras == extras.keys() - {"all"}
