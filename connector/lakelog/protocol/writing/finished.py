"""Which batches were in a snapshot before an offset of an eventual log: their records after it are repetitions."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.stores.table_states import read_state


def done_batches(table: TableStore, offsets: Mapping[int, int], *, topic_id: str) -> dict[int, dict[str, int]]:
    """Bucket -> user -> its last batch in the newest snapshot that ends at or before the bucket's offset.

    A bucket is missing if no living snapshot of its past is left. Reads snapshots from the newest one back.
    """
    found: dict[int, dict[str, int]] = {}
    for snapshot_id in sorted(table.snapshots.ids(), reverse=True):
        left = offsets.keys() - found.keys()
        if not left:
            break
        try:
            state = read_state(table, table.snapshots.get(snapshot_id), topic_id=topic_id)
        except NotFoundError:  # expired since, or the log began after it
            break
        done = {user: entry.identifier for user, entry in state.users.items()}
        found |= {bucket: done for bucket in left if state.logged.position(bucket).offset <= offsets[bucket]}
    return found
