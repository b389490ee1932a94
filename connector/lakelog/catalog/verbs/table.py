"""One table: its files, and its log where it has one."""

from __future__ import annotations

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.reading import TableReads
from lakelog.catalog.verbs.tags import TableTags
from lakelog.catalog.verbs.upkeep import TableUpkeep
from lakelog.catalog.verbs.writing import TableWrites


@naming_keywords
class Table(TableReads, TableWrites, TableTags, TableUpkeep):
    """A table of a warehouse. Reads show the newest snapshot, or the one that arguments name; they need no Kafka."""
