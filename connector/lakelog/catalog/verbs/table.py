"""One table: its files, and its log if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.branches import TableBranches
from lakelog.catalog.verbs.consumers import TableConsumers
from lakelog.catalog.verbs.log_store import TableLogStore
from lakelog.catalog.verbs.reading import TableReads
from lakelog.catalog.verbs.system import TableSystem
from lakelog.catalog.verbs.tags import TableTags
from lakelog.catalog.verbs.upkeep import TableUpkeep
from lakelog.catalog.verbs.writing import TableWrites


@naming_keywords
class Table(TableReads, TableWrites):
    """A table of a warehouse. Reads show the newest snapshot, or the one that arguments name; they need no Kafka.

    The common verbs are here; the others are in `tags`, `branches`, `log_store`, `upkeep`, `consumers`, `system`.
    """

    @property
    def tags(self) -> TableTags[Self]:
        """The tags of the table."""
        return TableTags(self)

    @property
    def branches(self) -> TableBranches[Self]:
        """The branches of the table."""
        return TableBranches(self)

    @property
    def log_store(self) -> TableLogStore[Self]:
        """The verbs of the table's log in Kafka, also for a table that has no log yet."""
        return TableLogStore(self)

    @property
    def upkeep(self) -> TableUpkeep[Self]:
        """Expiry, buckets, partitions, orphan files, and checks."""
        return TableUpkeep(self)

    @property
    def consumers(self) -> TableConsumers[Self]:
        """The consumers of the table."""
        return TableConsumers(self)

    @property
    def system(self) -> TableSystem[Self]:
        """The parts of the table: files, partitions, system tables."""
        return TableSystem(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            from lakelog.catalog.names.guesses import missing_member

            raise missing_member(self, name)
