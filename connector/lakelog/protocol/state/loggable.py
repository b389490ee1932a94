"""The rules for tables with a log. Pure."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.options import (
    CHANGELOG_PRODUCER,
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORED,
    DELETION_VECTORS,
    ChangelogProducer,
)
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.options import CONSISTENCY, is_eventual


def check_loggable(schema: TableSchema, *, table_name: str) -> None:
    """Raise InvalidRequestError, or UnsupportedError, for a table whose files and log would hold different rows."""
    _check_buckets(schema, table_name)
    if is_eventual(schema.options) and schema.is_merged_at_write:
        raise UnsupportedError(
            f"table {table_name} has {CONSISTENCY.key}=eventual, so its log has each row as it was written; merging "
            "with older rows, a sequence field and ignored deletes need the rows of all earlier batches, which only a "
            f"transactional log gives: use {CONSISTENCY.key}=transactional"
        )
    if CHANGELOG_PRODUCER.of(schema.options) is ChangelogProducer.INPUT:
        raise UnsupportedError(
            f"table {table_name} has a log, which holds every change that is written: leave out "
            f"{CHANGELOG_PRODUCER.key}=input"
        )
    if DELETION_VECTORS.of(schema.options):
        raise UnsupportedError(
            f"table {table_name} has a log, and its snapshots must show everything in it: with {DELETION_VECTORS.key} "
            "rows are shown only after a compaction; leave it out"
        )
    ignored = CHANGELOG_ROW_DEDUPLICATE_IGNORED.of(schema.options)
    if schema.looks_up_old_rows and CHANGELOG_ROW_DEDUPLICATE.of(schema.options) and ignored:
        raise InvalidRequestError(
            f"table {table_name} has a log with the rows before updates, and {CHANGELOG_ROW_DEDUPLICATE_IGNORED.key}="
            f"{','.join(ignored)}: files would hold values that no record has; leave it out"
        )


def _check_buckets(schema: TableSchema, table_name: str) -> None:
    if schema.bucket_count >= 1:
        return
    found = f"found bucket={schema.bucket_count}, with which "
    if not schema.primary_keys:
        why = "rows have none"
    elif schema.has_dynamic_buckets:
        why = "the bucket of a new key is chosen when a snapshot is made, and the log needs it before"
    else:
        why = "rows get theirs when they are compacted, and the log needs it before"
    raise InvalidRequestError(
        f"table {table_name} has a log, whose Kafka partitions are the buckets of the table; {found}{why}; set bucket "
        "to a positive number"
    )
