"""Tables with whole rows above level 0: those whose compactions look up the old row of a key. Pure."""

from __future__ import annotations

from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    ChangelogProducer,
)
from lakelog.filestore.schema.merged_schema import has_hidden_rules
from lakelog.filestore.schema.schema import TableSchema

_FORCE_LOOKUP = "force-lookup"  # an option of Paimon; lakelog reads such tables, but does not offer the option


def needs_lookup(schema: TableSchema) -> bool:
    """Whether compactions take every level-0 file at once and look up the rows that its keys had before.

    Above level 0 the youngest row of a key is then the whole row, without those of older levels. Source: Paimon,
    `CoreOptions.needLookup` and `LookupMergeFunction`.
    """
    options = schema.options
    return bool(schema.primary_keys) and (
        CHANGELOG_PRODUCER.of(options) is ChangelogProducer.LOOKUP
        or schema.merge_engine.traits.keeps_first
        or DELETION_VECTORS.of(options)
        or options.get(_FORCE_LOOKUP, "").lower() == "true"
    )


def is_looked_up(schema: TableSchema) -> bool:
    """Whether compactions, or each write, look up rows of some keys in the files with this schema."""
    return needs_lookup(schema) or has_hidden_rules(schema) or schema.looks_up_old_rows
