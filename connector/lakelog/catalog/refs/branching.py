"""Creating, renaming, deleting, listing and opening the branches of a table; see `Table.branches`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.durations import MILLISECOND, Age, Duration, age_millis, retained_for
from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.file_names import shown_name
from lakelog.filestore import refs
from lakelog.filestore.expire import take_lineage_of_deleted
from lakelog.filestore.options import LOG_BRANCH
from lakelog.filestore.refs import branch_list
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.protocol.access import require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.refs import Branch, SnapshotChoice
    from lakelog.protocol.access import TableLog
    from lakelog.warehouse.handle import TableHandle

logger = logging.getLogger("lakelog.catalog")


def create_branch(
    files: FileStoreTable,
    name: str,
    *,
    empty: bool,
    time_retained: Duration | None,
    if_not_exists: bool,
    **which: Unpack[SnapshotChoice],
) -> Branch:
    """Create a branch. Raises InvalidRequestError at a snapshot that holds a part of a writer's batch."""
    kept = None if time_retained is None else retained_for(time_retained)
    return refs.create_branch(
        files,
        name,
        empty=empty,
        time_retained_millis=None if kept is None else kept // MILLISECOND,
        if_not_exists=if_not_exists,
        check=lambda snapshot: check_holds_whole_batches(files, snapshot),
        **which,
    )


def check_holds_whole_batches(files: FileStoreTable, snapshot: Snapshot) -> None:
    """Raise InvalidRequestError for a snapshot that holds only a part of a batch: the rest would never follow it.

    A stream that continues from that state would write the part again.
    """
    from lakelog.filestore.metadata.snapshots import carried_properties
    from lakelog.protocol.state import state_of_log
    from lakelog.protocol.statements import check_whole

    carried = carried_properties(snapshot, files.snapshots).properties
    state = state_of_log(carried, where=f"{files.name}, snapshot {snapshot.id}")
    if state is not None:
        check_whole(state, snapshot_id=snapshot.id, table_name=files.name)


def expire_branches(table: TableHandle, older_than: Age | None) -> list[str]:
    """Delete the branches whose time is over, and their topics."""
    now = system_millis()
    age = None if older_than is None else age_millis(older_than, now_millis=now)
    topics = {branch.name: _before_deletion(table, branch.name) for branch in branch_list(table.store)}
    deleted = refs.expire_branches(table.store, age_millis=age, now_millis=now)
    for name in deleted:
        drop_topics(topics.get(name, ()))
    return deleted


def delete_branch(table: TableHandle, name: str, *, if_exists: bool) -> None:
    """Delete a branch, and the topics of its log."""
    is_there = name in table.store.branch_names()[1:]
    logs = _before_deletion(table, name) if is_there else ()
    refs.delete_branch(table.store, name, if_exists=if_exists)
    drop_topics(logs)


def _before_deletion(table: TableHandle, name: str) -> Sequence[TableLog]:
    """Take over the lineage of a branch and return its present and older logs; none for a damaged branch."""
    try:
        branch = table.branch(name)
        logs = _logs_of(branch)
    except NotFoundError:  # only half created
        return ()
    except CorruptDataError as error:
        logger.warning("%s: the topics of its branch %s, if any, stay: %s", table.name, shown_name(name), error)
        return ()
    take_lineage_of_deleted(branch.store)
    return logs


def logs_of_branches(table: TableHandle) -> list[TableLog]:
    """The present and older logs of the branches of a table. Does not ask Kafka."""
    return [log for branch in branch_list(table.store) for log in _logs_of(table.branch(branch.name))]


def logs_of_lines(table: TableHandle) -> list[tuple[FileStoreTable, TableLog]]:
    """The table and those of its branches that have a log, each with its log."""
    main = table.branch(MAIN_BRANCH)
    lines = (main, *(main.branch(branch.name) for branch in branch_list(main.store)))
    return [(line.store, line.log) for line in lines if line.log is not None]


def _logs_of(branch: TableHandle) -> tuple[TableLog, ...]:
    if branch.log is None and not LOG_BRANCH.of(branch.schema.options):
        return ()
    require_kafka_client()
    from lakelog.protocol.life import older_logs  # needs the extra

    return (*older_logs(branch.store, branch.kafka), *(() if branch.log is None else (branch.log,)))


def drop_topics(logs: Iterable[TableLog]) -> None:
    """Delete topics. Raises UnavailableError."""
    for log in logs:
        from lakelog.protocol.access import drop_topic  # needs the extra

        drop_topic(log)
