"""What a table's folder must hold, worked out from its JSON and Avro files without the code that deletes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: JSON and Avro are untyped

import fastavro

METADATA = {"snapshot", "changelog", "schema", "tag", "consumer", "branch", "lakelog"}


def files_on_disk(table: str) -> set[str]:
    """The names of all data, manifest, index and statistics files below a table's folder."""
    root = Path(table)
    found = [path for path in root.rglob("*") if path.is_file() and path.relative_to(root).parts[0] not in METADATA]
    names = [path.name for path in found]
    assert len(set(names)) == len(names)
    return set(names)


def referenced_files(table: str, *, keeps_deltas: bool = False) -> set[str]:
    """The names of the files that living snapshots, tags, branches and changelogs need, and no more.

    `keeps_deltas` says that the changes of expired snapshots are their deltas.
    """
    names: set[str] = set()
    branches = [Path(table), *Path(table).glob("branch/branch-*")]
    for folder in branches:
        snapshots = sorted(_read(folder, "snapshot/snapshot-*"), key=lambda one: int(one["id"]))
        for snapshot in [*snapshots, *_read(folder, "tag/tag-*")]:
            names |= _state(table, snapshot)
        for snapshot in snapshots:
            names |= _changelog(table, snapshot)
        for changelog in _read(folder, "changelog/changelog-*"):
            names |= _changelog(table, changelog)
            if keeps_deltas:
                names |= _lists(table, changelog["baseManifestList"], changelog["deltaManifestList"])
                names |= _delta(table, changelog)
        if keeps_deltas and snapshots:
            names |= _delta(table, snapshots[0])
    return names


def _read(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    return (json.loads(path.read_text()) for path in folder.glob(pattern))


def _avro(table: str, folder: str, name: str) -> list[dict[str, Any]]:
    with (Path(table) / folder / name).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]  # records are dicts here


def _lists(table: str, *lists: str) -> set[str]:
    return {*lists, *(one["_FILE_NAME"] for name in lists for one in _avro(table, "manifest", name))}


def _entries(table: str, *lists: str) -> list[dict[str, Any]]:
    manifests = [one["_FILE_NAME"] for name in lists for one in _avro(table, "manifest", name)]
    return [entry for name in manifests for entry in _avro(table, "manifest", name)]


def _names(entry: dict[str, Any]) -> set[str]:
    return {entry["_FILE"]["_FILE_NAME"], *entry["_FILE"]["_EXTRA_FILES"]}


def _state(table: str, snapshot: dict[str, Any]) -> set[str]:
    lists = (snapshot["baseManifestList"], snapshot["deltaManifestList"])
    names = _lists(table, *lists)
    live: dict[tuple[str, int], set[str]] = {}
    for entry in _entries(table, *lists):
        key = (entry["_FILE"]["_FILE_NAME"], entry["_FILE"]["_LEVEL"])
        if entry["_KIND"] == 0:
            live[key] = _names(entry)
        else:
            del live[key]
    for held in live.values():
        names |= held
    if snapshot.get("indexManifest"):
        names |= {snapshot["indexManifest"]}
        names |= {one["_FILE_NAME"] for one in _avro(table, "manifest", snapshot["indexManifest"])}
    return names | ({snapshot["statistics"]} if snapshot.get("statistics") else set())


def _changelog(table: str, snapshot: dict[str, Any]) -> set[str]:
    changelog = snapshot.get("changelogManifestList")
    if not changelog:
        return set()
    names = _lists(table, changelog)
    for entry in _entries(table, changelog):
        names |= _names(entry)
    return names


def _delta(table: str, snapshot: dict[str, Any]) -> set[str]:
    """What an APPEND brought, and what it took away of such: that goes with the changelog."""
    names: set[str] = set()
    for entry in _entries(table, snapshot["deltaManifestList"]):
        if entry["_FILE"]["_FILE_SOURCE"] != 1:
            names |= _names(entry)
    return names
