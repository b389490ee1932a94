"""Names of tables and verbs in two versions of lakelog, for the programs that both run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any  # Any: catalogs and tables of either version

_OLDER = {
    "tags.create": "create_tag",
    "tags.rename": "rename_tag",
    "tags.delete": "delete_tag",
    "tags.list": "tags",
    "branches.create": "create_branch",
    "branches.rename": "rename_branch",
    "branches.delete": "delete_branch",
    "branches.list": "branches",
    "branches.fast_forward": "fast_forward",
    "branches.replace_newer": "merge_branch",
    "branches.replace_main": "replace_main",
    "branches.merge": "merge_changes",
    "log_store.add": "add_log",
    "log_store.remove": "remove_log",
    "log_store.renew": "renew_log",
    "log_store.verify": "verify_log",
    "upkeep.expire_snapshots": "expire_snapshots",
    "upkeep.remove_orphan_files": "remove_orphan_files",
    "upkeep.rescale": "rescale",
    "upkeep.rollback": "rollback",
}


def load(catalog: Any, name: str) -> Any:
    """A table."""
    return catalog.load_table(name) if hasattr(catalog, "load_table") else catalog.table(name)


def verb_of(table: Any, name: str) -> Callable[..., Any]:
    """A verb by its present name. The earlier version has no groups, and takes records without a word more."""
    group, _, member = name.partition(".")
    found = getattr(getattr(table, group), member) if hasattr(table, "upkeep") else getattr(table, _OLDER[name])
    return partial(found, force=True) if "force" in inspect.signature(found).parameters else found
