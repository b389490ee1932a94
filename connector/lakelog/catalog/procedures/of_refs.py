"""Procedures of tags, branches, restore and rollback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: values of parameters

from lakelog.catalog.procedures.procedure import (
    FORCE,
    TABLE,
    Procedure,
    check_forced,
    done,
    flag,
    number,
    one_state,
    rows,
    table_of,
    text,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.table_opener import TableOpener
    from lakelog.catalog.verbs.table import Table

_TAG = text("tag", "the name of the tag", is_required=True)
_BRANCH = text("branch", "the name of the branch", is_required=True)
_SNAPSHOT = number("snapshot", "the number of a snapshot; the newest by default")
_RETAINED = text("time_retained", "how long it is kept, such as 30 d; forever by default")
_MILLIS = "milliseconds since 1970"
_RENEW_LOG = flag("renew_log", "true gives the table a log with a new topic, instead of the changes in its log")


def _create_tag(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    which = one_state(
        snapshot_id=values.get("snapshot"), timestamp=values.get("timestamp"), watermark=values.get("watermark")
    )
    tag = table_of(catalog, values).tags.create(values["tag"], time_retained=values["time_retained"], **which)
    return done(tag=values["tag"], snapshot_id=tag.snapshot.id)


def _replace_tag(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    which = one_state(snapshot_id=values["snapshot"])
    tag = table_of(catalog, values).tags.replace(values["tag"], time_retained=values["time_retained"], **which)
    return done(tag=values["tag"], snapshot_id=tag.snapshot.id)


def _rename_tag(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table_of(catalog, values).tags.rename(values["tag"], values["target_tag"])
    return done(result=True)


def _delete_tag(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    for name in _names(values["tag"]):
        table.tags.delete(name)
    return done(result=True)


def _expire_tags(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    return rows({"expired_tags": table_of(catalog, values).tags.expire()})


def _create_branch(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    which = one_state(tag=values["tag"], snapshot_id=values["snapshot"])
    branch = table_of(catalog, values).branches.create(
        values["branch"],
        empty=bool(values["empty"]),
        if_not_exists=(values["ignoreIfExists"] or "").lower() == "true",
        time_retained=values["time_retained"],
        **which,
    )
    return done(branch=branch.name)


def _delete_branch(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    for name in _names(values["branch"]):
        table.branches.delete(name)
    return done(result=True)


def _rename_branch(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table_of(catalog, values).branches.rename(values["from_branch"], values["to_branch"])
    return done(result=True)


def _fast_forward(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    snapshot = table.branches.fast_forward(values["branch"], renew_log=bool(values["renew_log"]))
    return done(snapshot_id=snapshot.id)


def _merge_changes(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    merge = table_of(catalog, values).branches.merge(
        values["branch"], on_conflict=values["on_conflict"] or "fail", dry_run=bool(values["dry_run"])
    )
    return done(
        snapshot_id=merge.snapshot_id,
        upserted=merge.upserted,
        inserted=merge.inserted,
        deleted=merge.deleted,
        conflicts=merge.conflict_count,
    )


def _merge_branch(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    newest = table.snapshot()
    check_forced(
        values,
        f"merge_branch gives table {table.name} the rows of branch {values['source_branch']} and drops what the table "
        f"has committed since the branch began (its newest snapshot is {0 if newest is None else newest.id}); "
        "merge_changes keeps both",
    )
    snapshot = table.branches.replace_newer(values["source_branch"], renew_log=bool(values["renew_log"]))
    return done(snapshot_id=snapshot.id)


def _rollback(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    table = table_of(catalog, values)
    which = one_state(
        version=values.get("version"),
        snapshot_id=values.get("snapshot"),
        tag=values.get("tag"),
        timestamp=values.get("timestamp"),
        watermark=values.get("watermark"),
    )
    return _rolled_back(table, values, which)


def _rolled_back(table: Table, values: Mapping[str, Any], which: Mapping[str, Any]) -> pa.Table:
    would = table.upkeep.rollback(dry_run=True, **which)
    gone = ", ".join(str(one) for one in would.snapshot_ids) or "none"
    if would.snapshot_ids:
        check_forced(values, f"a rollback of table {table.name} deletes its snapshots {gone}; restore keeps them")
    found = table.upkeep.rollback(**which)
    return done(snapshot_id=found.target.id, deleted_snapshots=list(found.snapshot_ids), deleted_tags=list(found.tags))


def _restore(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    which = one_state(
        version=values["version"],
        snapshot_id=values["snapshot"],
        tag=values["tag"],
        timestamp=values["timestamp"],
        watermark=values["watermark"],
    )
    restored = table_of(catalog, values).restore(
        dry_run=bool(values["dry_run"]),
        renew_log=bool(values["renew_log"]),
        rewind_writers=bool(values["rewind_writers"]),
        **which,
    )
    return done(
        snapshot_id=None if restored.snapshot is None else restored.snapshot.id,
        rows_added=restored.rows_added,
        rows_removed=restored.rows_removed,
        rows_changed=restored.rows_changed,
    )


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


_STATE = (
    text("version", "a snapshot, a tag, branch.tag, branch.snapshot or a branch"),
    number("snapshot", "the number of a snapshot"),
    text("tag", "the name of a tag"),
    number("timestamp", f"the newest snapshot at this time, {_MILLIS}, or before"),
    number("watermark", f"the oldest snapshot with this watermark, {_MILLIS}, or a later one"),
)

REFS = (
    Procedure(
        name="create_tag",
        comment="Keep a snapshot under a name.",
        parameters=(TABLE, _TAG, _SNAPSHOT, _RETAINED),
        run=_create_tag,
    ),
    Procedure(
        name="create_tag_from_timestamp",
        comment="Keep the newest snapshot at a time, or before it, under a name.",
        parameters=(TABLE, _TAG, number("timestamp", _MILLIS, is_required=True), _RETAINED),
        run=_create_tag,
    ),
    Procedure(
        name="create_tag_from_watermark",
        comment="Keep the oldest snapshot with a watermark, or a later one, under a name.",
        parameters=(TABLE, _TAG, number("watermark", _MILLIS, is_required=True), _RETAINED),
        run=_create_tag,
    ),
    Procedure(
        name="replace_tag",
        comment="Give a tag another snapshot.",
        parameters=(TABLE, _TAG, _SNAPSHOT, _RETAINED),
        run=_replace_tag,
    ),
    Procedure(
        name="rename_tag",
        comment="Give a tag another name.",
        parameters=(TABLE, _TAG, text("target_tag", "the new name", is_required=True)),
        run=_rename_tag,
    ),
    Procedure(name="delete_tag", comment="Delete tags.", parameters=(TABLE, _TAG), run=_delete_tag),
    Procedure(name="expire_tags", comment="Delete the tags whose time is over.", parameters=(TABLE,), run=_expire_tags),
    Procedure(
        name="create_branch",
        comment="Begin a branch at the newest snapshot, or at a tag or a snapshot.",
        parameters=(
            TABLE,
            _BRANCH,
            text("tag", "the tag at which it begins"),
            text("ignoreIfExists", "'true' leaves a branch that exists as it is"),
            number("snapshot", "the snapshot at which it begins"),
            flag("empty", "true begins without rows"),
            _RETAINED,
        ),
        run=_create_branch,
    ),
    Procedure(name="delete_branch", comment="Delete branches.", parameters=(TABLE, _BRANCH), run=_delete_branch),
    Procedure(
        name="rename_branch",
        comment="Give a branch another name.",
        parameters=(
            TABLE,
            text("from_branch", "the branch", is_required=True),
            text("to_branch", "the new name", is_required=True),
        ),
        run=_rename_branch,
    ),
    Procedure(
        name="fast_forward",
        comment="Give the table what a branch has committed; refused if the table has newer commits.",
        parameters=(TABLE, _BRANCH, _RENEW_LOG),
        run=_fast_forward,
    ),
    Procedure(
        name="merge_changes",
        comment="Merge what a branch has changed into the table, row by row.",
        parameters=(
            TABLE,
            _BRANCH,
            text("on_conflict", "fail, which is the default, branch, main or columns"),
            flag("dry_run", "true says what would be merged"),
        ),
        run=_merge_changes,
    ),
    Procedure(
        name="merge_branch",
        comment="Replace what the table has committed since a branch began by what the branch has.",
        parameters=(TABLE, text("source_branch", "the branch", is_required=True), _RENEW_LOG, FORCE),
        run=_merge_branch,
    ),
    Procedure(
        name="rollback",
        comment="Delete the snapshots behind a state; restore brings it back and deletes none.",
        parameters=(TABLE, *_STATE[:3], FORCE),
        run=_rollback,
    ),
    Procedure(
        name="rollback_to_timestamp",
        comment="Delete the snapshots behind a time.",
        parameters=(TABLE, number("timestamp", _MILLIS, is_required=True), FORCE),
        run=_rollback,
    ),
    Procedure(
        name="rollback_to_watermark",
        comment="Delete the snapshots behind a watermark.",
        parameters=(TABLE, number("watermark", _MILLIS, is_required=True), FORCE),
        run=_rollback,
    ),
    Procedure(
        name="restore",
        comment="Bring an older state back as a new snapshot.",
        parameters=(
            TABLE,
            *_STATE,
            flag("dry_run", "true says what would change"),
            _RENEW_LOG,
            flag("rewind_writers", "true lets streams write again what was undone"),
        ),
        run=_restore,
    ),
)
