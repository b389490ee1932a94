"""The rules for tables with a log. Pure."""

from __future__ import annotations

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, DELETION_VECTORS, ROWKIND_FIELD, ChangelogProducer
from lakelog.filestore.schema.schema import TableSchema


def check_loggable(schema: TableSchema, *, table_name: str) -> None:
    """Raise UnsupportedError for a schema whose rows cannot be logged."""
    if not schema.primary_keys:
        raise UnsupportedError(f"table {table_name} has no primary key: such tables have no log yet")
    if schema.has_dynamic_buckets:
        raise UnsupportedError(
            f"table {table_name} has a log, whose partitions are the buckets of the table: their number must be fixed, "
            "found bucket=-1; set bucket to a positive number"
        )
    if CHANGELOG_PRODUCER.of(schema.options) is ChangelogProducer.INPUT:
        raise UnsupportedError(
            f"table {table_name} has a log, which holds every change that is written: leave out "
            f"{CHANGELOG_PRODUCER.key}=input"
        )
    if ROWKIND_FIELD.of(schema.options) is not None:
        raise UnsupportedError(
            f"table {table_name} has a log, whose records hold the row kinds: write the kinds in a column _row_kind, "
            f"and leave out {ROWKIND_FIELD.key}"
        )
    if DELETION_VECTORS.of(schema.options):
        raise UnsupportedError(
            f"table {table_name} has a log, and snapshots that must show all that the log holds: with "
            f"{DELETION_VECTORS.key} rows are shown once they are compacted; leave it out"
        )
    if row_merge(schema) is not None:
        raise UnsupportedError(
            f"table {table_name} has a log, whose records are the last change of a key: merge-engine, sequence.field "
            "and ignore-delete are for tables without a log"
        )
