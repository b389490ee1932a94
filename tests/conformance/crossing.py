"""Tables that one version of lakelog makes, with verbs cut off by SIGKILL at each change of a file; another goes on.

Run as a program by the Python of either version, so it imports public names alone; `either_version` knows those that
one of them has no more:

    make WAREHOUSE KIND VERB           tables `<verb>.t1`, `t2`, ...: in each the verb is killed before a later change
    go_on WAREHOUSE KIND VERB COUNT    reads each, does the verb again, writes, reads; one JSON line a table
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any  # Any: keywords of reads, tables of two versions with names that one of them has no more

import pandas  # noqa: F401 - Arrow imports it at its first table, which would cost each process 0.2 s
import pyarrow as pa

from lakelog.catalog import AddColumn, Catalog
from lakelog.common.errors import ConflictError, LakelogError, NotFoundError
from tests.conformance.either_version import load, verb_of
from tests.support.kills.dying_at_changes import die_before_change

CHANGES_MAX = 200
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])

Rows = dict[int, str]

START: Rows = {1: "a", 2: "B", 3: "c"}
NEWER: Rows = {5: "e"}
SIDE: Rows = {4: "s"}
LATE: Rows = {99: "z"}


@dataclass(frozen=True)
class Verb:
    """A verb, and the rows of the table after it; `is_diverged`: the table has rows that are newer than the branch."""

    act: Callable[[Any, str], object]
    after: Rows
    is_diverged: bool = True

    @property
    def before(self) -> Rows:
        """The rows of the table before the verb."""
        return START | (NEWER if self.is_diverged else {})


def _verb(act: Callable[[Any], object], after: Rows | None = None, *, is_diverged: bool = True) -> Verb:
    def on_table(catalog: Any, name: str) -> object:
        return act(load(catalog, name))

    return Verb(on_table, START | NEWER if after is None else after, is_diverged)


VERBS: Mapping[str, Verb] = {
    "write": _verb(lambda table: table.write(rows_of({6: "f"})), START | NEWER | {6: "f"}),
    "overwrite": _verb(lambda table: table.write(rows_of({7: "g"}), mode="overwrite"), {7: "g"}),
    "delete": _verb(lambda table: table.delete("id = 1"), {2: "B", 3: "c", 5: "e"}),
    "update": _verb(lambda table: table.update({"name": "u"}, "id = 1"), START | NEWER | {1: "u"}),
    "truncate": _verb(lambda table: table.truncate(), {}),
    "compact": _verb(lambda table: table.compact(full=True)),
    "add_column": _verb(lambda table: table.alter(AddColumn("more", "INT"))),
    "expire": _verb(
        lambda table: verb_of(table, "upkeep.expire_snapshots")(retain_max=1, retain_min=1, older_than="0 s")
    ),
    "create_tag": _verb(lambda table: verb_of(table, "tags.create")("new")),
    "rename_tag": _verb(lambda table: verb_of(table, "tags.rename")("kept", "renamed")),
    "delete_tag": _verb(lambda table: verb_of(table, "tags.delete")("kept")),
    "create_branch": _verb(lambda table: verb_of(table, "branches.create")("new", tag="kept")),
    "rename_branch": _verb(lambda table: verb_of(table, "branches.rename")("side", "renamed")),
    "delete_branch": _verb(lambda table: verb_of(table, "branches.delete")("side")),
    "fast_forward": _verb(
        lambda table: verb_of(table, "branches.fast_forward")("side"), START | SIDE, is_diverged=False
    ),
    "merge_branch": _verb(lambda table: verb_of(table, "branches.replace_newer")("side"), START | SIDE),
    "replace_main": _verb(lambda table: verb_of(table, "branches.replace_main")("side"), START | SIDE),
    "merge_changes": _verb(lambda table: verb_of(table, "branches.merge")("side"), START | NEWER | SIDE),
    "rollback": _verb(lambda table: verb_of(table, "upkeep.rollback")(tag="kept"), START),
    "restore": _verb(lambda table: table.restore(tag="kept"), START),
    "rescale": _verb(lambda table: verb_of(table, "upkeep.rescale")(4)),
    "rename_table": Verb(lambda catalog, name: catalog.rename_table(name, f"{name}_renamed"), START | NEWER),
    "drop_table": Verb(lambda catalog, name: catalog.drop_table(name), {}),
}
TAKEN = ("fast_forward", "merge_branch", "replace_main")  # a branch takes the table's place
KEPT = {"bucket": "2", "snapshot.num-retained.min": "100", "snapshot.num-retained.max": "1000"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "keyed": KEPT,
    "dynamic": KEPT | {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "vectors": KEPT | {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},
}


def rows_of(rows: Rows) -> pa.Table:
    """Rows as a table."""
    return pa.table({"id": list(rows), "name": list(rows.values())}, schema=SCHEMA)


def main(what: str, warehouse: str, kind: str, verb: str, count: str = "0") -> None:
    """Make the tables of a verb, and print how many; or go on with so many."""
    if what == "make":
        print(_make(warehouse, kind, verb))
    else:
        for number in range(1, int(count) + 1):
            print(json.dumps(go_on(Catalog(warehouse), f"{verb}.t{number}", kind, verb)), flush=True)


def _make(warehouse: str, kind: str, verb: str) -> int:
    for number in range(1, CHANGES_MAX):
        name = f"{verb}.t{number}"
        _in_process(partial(_begin, warehouse, name, kind, VERBS[verb]))
        if not _in_process(partial(_cut_off, warehouse, name, verb, number)):
            return number
    msg = f"{verb} has not ended within {CHANGES_MAX} changes of files"
    raise RuntimeError(msg)


def _in_process(act: Callable[[], object]) -> bool:
    """Do something in a process of its own; whether it was killed. A failure ends this one."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the parent tells it by the status
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status not in (0, signal.SIGKILL):
        sys.exit(f"a process ended with {status}")
    return status != 0


def _begin(warehouse: str, name: str, kind: str, verb: Verb) -> None:
    table: Any = Catalog(warehouse).create_table(name, schema=SCHEMA, primary_keys="id", options=KINDS[kind])
    table.write(rows_of({1: "a", 2: "b"}))
    table.write(rows_of({2: "B", 3: "c"}))
    verb_of(table, "tags.create")("kept")
    verb_of(table, "branches.create")("side", tag="kept")
    table.branch("side").write(rows_of(SIDE))
    if verb.is_diverged:
        table.write(rows_of(NEWER))


def _cut_off(warehouse: str, name: str, verb: str, number: int) -> None:
    die_before_change(number)
    VERBS[verb].act(Catalog(warehouse), name)


def go_on(catalog: Any, name: str, kind: str, verb: str) -> Mapping[str, object]:
    """Read a table, do the verb (again), write, tidy up; what was seen at each step."""
    told: dict[str, object] = {"table": name, "found": _state(catalog, name)}
    try:
        VERBS[verb].act(catalog, name)
    except LakelogError as error:
        told["refused"] = f"{type(error).__name__}: {error}"
    told["after"] = _state(catalog, name)
    if verb == "drop_table":
        _begin(catalog.warehouse, name, kind, VERBS[verb])
    table = _opened(catalog, name)
    try:
        table.write(rows_of(LATE))
    except ConflictError:  # once, where a branch had taken the table's place and its process died at the last files
        if verb not in TAKEN:
            raise
        _opened(catalog, name).write(rows_of(LATE))
    told["written"] = _state(catalog, name)
    table.compact(full=True)
    verb_of(table, "upkeep.remove_orphan_files")(older_than="0 s", dry_run=False, allow_young=True)
    told["tidied"] = _state(catalog, name)
    return told


def _found(catalog: Any, name: str) -> Any:
    for one in (name, f"{name}_renamed"):
        try:
            return load(catalog, one)
        except NotFoundError:
            continue
    return None


def _opened(catalog: Any, name: str) -> Any:
    table = _found(catalog, name)
    assert table is not None
    return table


def _state(catalog: Any, name: str) -> Mapping[str, object] | None:
    """What a table shows: its rows, columns, tags and branches with theirs. Reads each snapshot. None without table."""
    table = _found(catalog, name)
    if table is None:
        return None
    for snapshot in table.snapshots():
        try:
            table.to_arrow(snapshot_id=snapshot.id)
        except NotFoundError:  # an expiry that was cut off has deleted the files of a snapshot, and not yet its own
            if not name.startswith("expire."):
                raise
    list(table.history().lines)
    return {
        "name": table.name,
        "rows": shown(table),
        "columns": [field.name for field in table.schema.fields],
        "buckets": table.schema.options.get("bucket"),
        "tags": {tag.name: shown(table, tag=tag.name) for tag in verb_of(table, "tags.list")()},
        "branches": {branch.name: shown(table, branch=branch.name) for branch in verb_of(table, "branches.list")()},
        "snapshots": len(list(table.snapshots())),
    }


def shown(table: Any, **which: Any) -> list[tuple[int, str]]:
    """Rows in the order of their keys."""
    rows = table.to_arrow(columns=["id", "name"], **which).to_pylist()
    return sorted((row["id"], row["name"]) for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
