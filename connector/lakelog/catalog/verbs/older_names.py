"""The names of `Table` before 0.1.0, which warn and are removed in 0.2.0: docs/rfcs/0040-rooms-and-api.md."""

from __future__ import annotations

import functools
import warnings
from types import MappingProxyType
from typing import Any  # Any: a table or a group, which are above this module

OLDER_NAMES = MappingProxyType(
    {
        "create_tag": "tags.create",
        "replace_tag": "tags.replace",
        "rename_tag": "tags.rename",
        "delete_tag": "tags.delete",
        "tag": "tags.get",
        "has_tag": "tags.__contains__",
        "previous_tag": "tags.previous",
        "next_tag": "tags.next",
        "expire_tags": "tags.expire",
        "create_branch": "branches.create",
        "rename_branch": "branches.rename",
        "delete_branch": "branches.delete",
        "expire_branches": "branches.expire",
        "merge_changes": "branches.merge",
        "merge_branch": "branches.replace_newer",
        "fast_forward": "branches.fast_forward",
        "replace_main": "branches.replace_main",
        "add_log": "log_store.add",
        "remove_log": "log_store.remove",
        "renew_log": "log_store.renew",
        "drop_ended_logs": "log_store.drop_ended",
        "tail_log": "log_store.tail",
        "verify_log": "log_store.verify",
        "open_transactions": "log_store.open_transactions",
        "end_transactions": "log_store.end_transactions",
        "abandon_writer": "log_store.abandon_writer",
        "expire_snapshots": "upkeep.expire_snapshots",
        "expire_partitions": "upkeep.expire_partitions",
        "drop_partitions": "upkeep.drop_partitions",
        "remove_orphan_files": "upkeep.remove_orphan_files",
        "rescale": "upkeep.rescale",
        "rollback": "upkeep.rollback",
        "find_commit": "upkeep.find_commit",
        "new_identity": "upkeep.new_identity",
        "doctor": "upkeep.doctor",
        "reset_consumer": "consumers.reset",
        "delete_consumer": "consumers.delete",
        "files": "system.files",
        "describe_partitions": "system.partitions",
        "system_table": "system.table",
    }
)


def member_of_older_name(table: object, name: str) -> object:
    """The member that a name of `Table` before 0.1.0 stands for. Raises AttributeError for any other name."""
    if name == "rows_between":
        warnings.warn(f"Table.{name} is Table.changes(compare='rows') from 0.1.0 on", DeprecationWarning, stacklevel=3)
        return functools.partial(_rows_between, table)
    new = OLDER_NAMES.get(name)
    if new is None:
        from lakelog.catalog.names.guesses import missing_member

        raise missing_member(table, name)
    warnings.warn(f"Table.{name} is Table.{new} from 0.1.0 on", DeprecationWarning, stacklevel=3)
    group, _, member = new.partition(".")
    return getattr(getattr(table, group), member)


def _rows_between(table: Any, after: object = None, up_to: object = None, **which: object) -> object:
    return table.changes(after=after, up_to=up_to, compare="rows", **which)


def list_of_older_call(group: Any, **which: object) -> object:
    """What `table.tags()` was before 0.1.0, and `branches()` and `consumers()`."""
    name = type(group).__name__.removeprefix("Table").lower()
    warnings.warn(f"Table.{name}() is Table.{name}.list() from 0.1.0 on", DeprecationWarning, stacklevel=3)
    return group.list(**which)
