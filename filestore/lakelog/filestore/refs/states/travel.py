"""The state of a table that a read names.

| keyword | state |
|---|---|
| `snapshot_id` | the living snapshot of this number |
| `timestamp` | the newest snapshot at this time or before; if expired, the newest tag that early, else the oldest |
| `watermark` | the oldest snapshot, living or in a tag, with this watermark or a later one |
| `tag` | the snapshot that the tag keeps |
| `version` | the tag of this name, also `5`; else a snapshot's number, `branch.tag`, `branch.snapshot`, or a branch |
| `branch` | the newest snapshot of the branch, or what another keyword names in it |

Paimon's form `watermark-<n>` of a version is a watermark, unless a tag has this name. A state that a read names is read
in its own columns: those of the schema that its snapshot names. Without a name, and for a whole branch, the newest
state is read in the newest columns. Source: Paimon, `TimeTravelUtil`, `AbstractFileStoreTable.tryTimeTravel`; the
proposal of tags, "Usage with Tag".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypedDict, TypeVar

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_user_name
from lakelog.common.quoting import listed, shown
from lakelog.common.timestamps import Timestamp, millis_of, shown_millis
from lakelog.filestore.metadata.tables.foreign_rows import warn_of_foreign_rows
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.column_options import columns_named
from lakelog.filestore.schema.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot

AnyTable = TypeVar("AnyTable", bound=TableStore)
NO_WATERMARK = -(1 << 63)  # what Flink writes for a watermark that is not known
STATES = ("snapshot_id", "timestamp", "watermark", "tag", "version")
_WATERMARK_PREFIX = "watermark-"
_DIGITS_MAX = 18


class SnapshotChoice(TypedDict, total=False):
    """The state that a read shows, of the table or a branch: the newest, or the one that a keyword names."""

    snapshot_id: int | None
    timestamp: Timestamp | None
    watermark: int | None
    tag: str | None
    version: str | int | None
    branch: str | None


_WORDS = tuple(SnapshotChoice.__annotations__)


def check_words(given: Mapping[str, object], known: Sequence[str] = _WORDS) -> None:
    """Raise InvalidRequestError for a keyword that a read does not have."""
    for keyword in given:
        if keyword not in known:
            near = get_close_matches(keyword, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {listed(known)}"
            raise InvalidRequestError(f"a read takes no {keyword!r}; {hint}")


def on_branch(table: AnyTable, branch: str | None) -> AnyTable:
    """The branch as a table, with its newest schema; None means the table itself. Raises NotFoundError."""
    if branch is None or branch == table.branch:
        return table
    other = replace(table, branch=branch, pinned=None)
    schema = other.schemas.latest()
    if schema is None:
        check_user_name(branch, "branch")
        known = listed(table.branch_names())
        raise NotFoundError(f"table {table.name} has no branch {branch!r}; its branches are {known}")
    check_not_in_step(other)
    return replace(other, schema=schema)


def check_not_in_step(table: TableStore) -> None:
    """Raise NotFoundError for a branch that is being created, renamed or deleted."""
    if table.branch != MAIN_BRANCH and table.file_io.exists(table.paths.branch_step):
        raise NotFoundError(
            f"branch {table.branch!r} of {table.path} is being created, renamed or deleted; if the process that did it "
            "has ended, the next call that creates or deletes a branch finishes it"
        )


def travelled(table: AnyTable, which: SnapshotChoice) -> tuple[AnyTable, Snapshot | None]:
    """As `chosen_state`, but a table whose state is named has the columns of this state.

    Logs a warning if the snapshot shows rows of another engine that the table's log lacks.
    """
    found, snapshot, is_named = _chosen(table, which)
    warn_of_foreign_rows(found, snapshot)
    return found if snapshot is None or not is_named else in_columns_of(found, snapshot), snapshot


def snapshot_of(table: TableStore, which: SnapshotChoice) -> Snapshot | None:
    """The snapshot to read: the newest, or the one that the keywords name; None for a table without snapshots.

    Raises NotFoundError for a snapshot, timestamp, watermark, tag or branch that does not exist. Logs a warning if it
    shows rows of another engine that the table's log lacks.
    """
    check_words(which)
    line, found = chosen_state(table, which)
    warn_of_foreign_rows(line, found)
    return found


def chosen_state(table: AnyTable, which: SnapshotChoice) -> tuple[AnyTable, Snapshot | None]:
    """The table, or the branch that a choice names, in its newest columns, and the chosen snapshot.

    None stands for the newest if there is no snapshot.

    Raises NotFoundError for what does not exist, InvalidRequestError for a choice that names several states.
    """
    return _chosen(table, which)[:2]


def in_columns_of(table: AnyTable, snapshot: Snapshot) -> AnyTable:
    """The table in the columns of a snapshot, with its present options; those that name columns are as they were then.

    Raises NotFoundError for a lost schema.
    """
    now, then = table.schema, table.schemas.get_beside(snapshot.schema_id, table.schema)
    if (then.fields, then.primary_keys, then.partition_keys) == (now.fields, now.primary_keys, now.partition_keys):
        return table
    options = {key: value for key, value in now.options.items() if not columns_named(key, value)}
    named = {key: value for key, value in then.options.items() if columns_named(key, value)}
    return table.with_schema(replace(then, options={**options, **named}))


def _chosen(table: AnyTable, which: SnapshotChoice) -> tuple[AnyTable, Snapshot | None, bool]:
    """As `chosen_state`, and whether a state is named, not the newest one."""
    found = on_branch(table, which.get("branch"))
    named = {key: value for key, value in which.items() if key in STATES and value is not None}
    if len(named) > 1:
        given = [f"{key}={value}" for key, value in named.items()]
        raise InvalidRequestError(
            f"{' and '.join(given)} each name a state of the table, and a read shows one: give one of them"
        )
    if which.get("version") is not None:
        return _at_version(found, which["version"])
    return found, _state(found, which), bool(named)


def _state(table: TableStore, which: SnapshotChoice) -> Snapshot | None:
    tag, timestamp = which.get("tag"), which.get("timestamp")
    snapshot_id, watermark = which.get("snapshot_id"), which.get("watermark")
    if tag is not None:
        return table.snapshots.tagged(tag)
    if timestamp is not None:
        return at_timestamp(table, millis_of(timestamp))
    if snapshot_id is not None:
        return at_number(table, snapshot_id)
    if watermark is not None:
        return at_watermark(table, watermark)
    return latest_of(table)


def at_number(table: TableStore, snapshot_id: int, *, or_tagged: bool = False) -> Snapshot:
    """The living snapshot of a number, or with `or_tagged` the one that a tag keeps.

    Raises NotFoundError, naming the tags that keep an expired one.
    """
    living = table.snapshots.find(snapshot_id)
    if living is not None:
        return living
    kept = [tag for tag in table.snapshots.all_tags() if tag.snapshot.id == snapshot_id]
    if kept and or_tagged:
        return kept[0].snapshot
    if kept:
        raise NotFoundError(
            f"snapshot {snapshot_id} of {table.name} has expired; it is kept by the tags "
            f"{listed(tag.name for tag in kept)}: name one of these. When it cannot have expired, its file "
            f"{table.paths.snapshot(snapshot_id)} was lost: restore it"
        )
    return table.snapshots.get(snapshot_id)  # raises, naming the living ones


def at_timestamp(table: TableStore, time_millis: int) -> Snapshot:
    """The newest snapshot at a time or before; expired ones count if a tag keeps them. Raises NotFoundError."""
    found = table.snapshots.at_or_before(time_millis)
    if found is not None:
        return found
    oldest = table.snapshots.earliest_id()
    tagged = _tagged(table) if oldest is None or oldest > 1 else []
    if tagged:
        early = [snapshot for snapshot in tagged if snapshot.time_millis <= time_millis]
        return early[-1] if early else tagged[0]
    raise NotFoundError(
        f"{table.name} has no snapshot at or before {time_millis} ms ({shown_millis(time_millis)}), and no tag keeps "
        "one; name a later time"
    )


def at_watermark(table: TableStore, watermark: int) -> Snapshot:
    """The oldest snapshot, living or in a tag, whose watermark is this one or later. Raises NotFoundError."""
    living = [found for number in table.snapshots.ids() if (found := table.snapshots.find(number)) is not None]
    marked = [one for one in (*_tagged(table), *living) if one.watermark not in (None, NO_WATERMARK)]
    passed = [one for one in marked if one.watermark is not None and one.watermark >= watermark]
    if passed:
        return min(passed, key=lambda one: one.id)
    highest = max((one.watermark or 0 for one in marked), default=None)
    known = "no snapshot has a watermark" if highest is None else f"the newest is {highest} ({shown_millis(highest)})"
    raise NotFoundError(f"{table.name} has no snapshot with the watermark {watermark} or a later one: {known}")


def at_version(table: AnyTable, version: str | int | None) -> tuple[AnyTable, Snapshot | None]:
    """The branch and the snapshot that a `version` names. Raises NotFoundError."""
    return _at_version(table, version)[:2]


def _at_version(table: AnyTable, version: str | int | None) -> tuple[AnyTable, Snapshot | None, bool]:
    """As `at_version`, and whether it is a state, not the newest one of a branch."""
    if not isinstance(version, str | int) or isinstance(version, bool):
        raise InvalidRequestError(f"version is {shown(version)}; expected the name of a tag, a branch or a snapshot")
    text = str(version)
    found = _named_state(table, text)
    if found is not None:
        return table, found, True
    branch, dot, state = text.partition(".")
    branches = table.branch_names()
    if dot and branch in branches:
        other = on_branch(table, branch)
        return other, _named_state(other, state) or other.snapshots.tagged(state), True
    if text in branches:
        other = on_branch(table, text)
        return other, latest_of(other), False
    ids, tags = table.snapshots.ids(), table.snapshots.tags()
    living = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot"
    raise NotFoundError(
        f"{table.name} has no version {shown(text)}: it has the tags {listed(tags) or 'none'}, {living} and the "
        f"branches {listed(branches)}; a version is one of these, or branch.tag or branch.snapshot"
    )


def _named_state(table: TableStore, text: str) -> Snapshot | None:
    """The snapshot of the tag `text`, or of the number or watermark in it; None for any other string."""
    if text in table.snapshots.tags():
        return table.snapshots.tagged(text)
    mark = text.removeprefix(_WATERMARK_PREFIX)
    if mark != text and _is_number(mark.removeprefix("-")):
        return at_watermark(table, int(mark))
    return at_number(table, int(text)) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def _tagged(table: TableStore) -> list[Snapshot]:
    return [tag.snapshot for tag in table.snapshots.all_tags()]
