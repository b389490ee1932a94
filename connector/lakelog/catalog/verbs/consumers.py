"""The consumers of a table."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import Consumer


@naming_keywords
class TableConsumers(ListedGroup[AnyTable, "Consumer"]):
    """The consumers of a table: `table.consumers`. A snapshot does not expire until all of them have read it."""

    def reset(self, consumer_id: str, next_snapshot: int) -> None:
        """Set the next snapshot of a consumer, or create it. Raises InvalidRequestError for an expired snapshot.

        >>> table.consumers.reset("nightly", 3)
        """
        self._table.store.reset_consumer(consumer_id, next_snapshot)

    def delete(self, consumer_id: str) -> None:
        """Delete a consumer, so that snapshots it has not read can expire. Raises NotFoundError for an unknown one.

        >>> table.consumers.delete("nightly")
        """
        self._table.store.delete_consumer(consumer_id)

    def list(self) -> builtins.list[Consumer]:
        """The consumers of the table.

        >>> print(table.consumers.list())
        """
        return self._table.store.consumers()
