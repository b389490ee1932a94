"""The consumers of a table."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: values of parameters

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup
from lakelog.common.errors import InvalidRequestError
from lakelog.warehouse.verb import Call, verb

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables import Consumer

_HELP = {
    "consumer_id": "The name of the consumer.",
    "next_snapshot": "The first snapshot that it will read.",
    "including": "A regular expression: which consumers; all by default.",
    "excluding": "A regular expression: which of them stay.",
}


def _reset_or_delete(consumers: TableConsumers[Any], values: Mapping[str, Any]) -> None:
    """As Paimon's procedure does: without a next snapshot the consumer is deleted."""
    if values.get("next_snapshot") is None:
        consumers.delete(values["consumer_id"])
    else:
        consumers.reset(values["consumer_id"], values["next_snapshot"])


@naming_keywords
class TableConsumers(ListedGroup[AnyTable, "Consumer"]):
    """The consumers of a table: `table.consumers`. A snapshot does not expire until all of them have read it."""

    place = "table consumer"

    @verb(
        calls=(
            Call(
                name="reset_consumer",
                takes="consumerId=consumer_id, nextSnapshotId=next_snapshot",
                optional=("next_snapshot",),
                run=_reset_or_delete,
            ),
        ),
        help=_HELP,
    )
    def reset(self, consumer_id: str, next_snapshot: int) -> None:
        """Set the next snapshot of a consumer, or create it. Raises InvalidRequestError for an expired snapshot.

        >>> table.consumers.reset("nightly", 3)
        """
        from lakelog.filestore.verbs import reset_consumer

        reset_consumer(self._table.store, consumer_id, next_snapshot)

    @verb(help=_HELP)
    def delete(self, consumer_id: str) -> None:
        """Delete a consumer. Snapshots that it has not read can expire then. Raises NotFoundError for an unknown one.

        >>> table.consumers.delete("nightly")
        """
        from lakelog.filestore.verbs import delete_consumer

        delete_consumer(self._table.store, consumer_id)

    @verb(
        calls=(Call(name="clear_consumers", takes="includingConsumers=including, excludingConsumers=excluding"),),
        help=_HELP,
        answer={"consumer": ""},
    )
    def clear(self, *, including: str | None = None, excluding: str | None = None) -> builtins.list[str]:
        """Delete consumers by regular expressions; returns their names.

        lakelog's own ones stay. Raises InvalidRequestError for a string that is not a regular expression.

        >>> gone = table.consumers.clear(including="nightly-.*")
        """
        try:
            wanted = re.compile(including or ".*")
            kept = None if excluding is None else re.compile(excluding)
        except re.error as error:
            raise InvalidRequestError(f"consumers.clear takes regular expressions: {error}") from error
        chosen = [
            one.consumer_id
            for one in self.list()
            if not one.is_own and wanted.fullmatch(one.consumer_id) and not (kept and kept.fullmatch(one.consumer_id))
        ]
        for name in chosen:
            self.delete(name)
        return chosen

    @verb(answer={"consumer_id": "consumer_id", "next_snapshot": "next_snapshot", "is_own": "is_own"})
    def list(self) -> builtins.list[Consumer]:
        """The consumers of the table.

        >>> print(table.consumers.list())
        """
        from lakelog.filestore.metadata.tables import ConsumerManager

        return ConsumerManager(self._table.store.file_io, self._table.store.paths).readable()
