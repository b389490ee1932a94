"""Procedures of upkeep: compaction, expiry, buckets, orphan files, consumers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any  # Any: values of parameters

from lakelog.catalog.procedures.procedure import (
    TABLE,
    Procedure,
    age,
    condition,
    count,
    done,
    flag,
    number,
    rows,
    table_of,
    text,
)
from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.catalog.system.table_opener import TableOpener

_FULL, _MINOR = "full", "minor"


def _compact(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    strategy = values["compact_strategy"] or _FULL
    if strategy not in (_FULL, _MINOR):
        raise InvalidRequestError(f"compact_strategy is {strategy!r}, expected {_FULL} or {_MINOR}")
    snapshot = table_of(catalog, values).compact(full=strategy == _FULL, where=values["where"])
    return done(snapshot_id=None if snapshot is None else snapshot.id)


def _expire_snapshots(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    expired = table_of(catalog, values).upkeep.expire_snapshots(
        retain_max=values["retain_max"], retain_min=values["retain_min"], older_than=values["older_than"]
    )
    return done(deleted_snapshots_count=len(expired.snapshot_ids))


def _expire_partitions(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    snapshot = table_of(catalog, values).upkeep.expire_partitions()
    return done(snapshot_id=None if snapshot is None else snapshot.id)


def _drop_partitions(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    snapshot = table_of(catalog, values).upkeep.drop_partitions(values["where"])
    return done(snapshot_id=None if snapshot is None else snapshot.id)


def _rescale(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    return done(bucket=table_of(catalog, values).upkeep.rescale(values["bucket_num"]).schema.options["bucket"])


def _remove_orphan_files(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    upkeep, older_than = table_of(catalog, values).upkeep, values["older_than"] or "1 d"
    found = upkeep.remove_orphan_files(dry_run=bool(values["dry_run"]), older_than=older_than)
    return done(deleted_file_count=len(found.files), deleted_file_total_size_in_bytes=found.size_bytes)


def _reset_consumer(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    consumers = table_of(catalog, values).consumers
    if values["nextSnapshotId"] is None:
        consumers.delete(values["consumerId"])
    else:
        consumers.reset(values["consumerId"], values["nextSnapshotId"])
    return done(result=True)


def _clear_consumers(catalog: TableOpener, values: Mapping[str, Any]) -> pa.Table:
    consumers = table_of(catalog, values).consumers
    try:
        wanted = re.compile(values["includingConsumers"] or ".*")
        kept = None if values["excludingConsumers"] is None else re.compile(values["excludingConsumers"])
    except re.error as error:
        raise InvalidRequestError(f"clear_consumers takes regular expressions: {error}") from error
    chosen = [
        consumer.consumer_id
        for consumer in consumers.list()
        if not consumer.is_own
        and wanted.fullmatch(consumer.consumer_id)
        and not (kept and kept.fullmatch(consumer.consumer_id))
    ]
    for name in chosen:
        consumers.delete(name)
    return rows({"consumer": chosen})


UPKEEP = (
    Procedure(
        name="compact",
        comment="Merge files, all runs of every bucket (full) or those that are due (minor).",
        parameters=(
            TABLE,
            text("compact_strategy", "full, which is the default, or minor"),
            condition("where", "a condition on partition columns: other partitions stay as they are"),
        ),
        run=_compact,
    ),
    Procedure(
        name="expire_snapshots",
        comment="Delete snapshots that are too many or too old, and the files that only they name.",
        parameters=(
            TABLE,
            count("retain_max", "how many snapshots stay at most"),
            count("retain_min", "how many snapshots stay at least"),
            age("older_than", "a time, or a duration such as 7 d: older snapshots are deleted"),
        ),
        run=_expire_snapshots,
    ),
    Procedure(
        name="expire_partitions",
        comment="Delete the partitions that are older than partition.expiration-time.",
        parameters=(TABLE,),
        run=_expire_partitions,
    ),
    Procedure(
        name="drop_partitions",
        comment="Delete the partitions that meet a condition.",
        parameters=(TABLE, condition("where", "a condition on partition columns", is_required=True)),
        run=_drop_partitions,
    ),
    Procedure(
        name="rescale",
        comment="Change the number of buckets; every row is rewritten.",
        parameters=(TABLE, count("bucket_num", "the number of buckets", is_required=True)),
        run=_rescale,
    ),
    Procedure(
        name="remove_orphan_files",
        comment="Delete the files that nothing names.",
        parameters=(
            TABLE,
            age("older_than", "a time, or a duration such as 2 d: younger files stay; one day by default"),
            flag("dry_run", "true counts the files and deletes none"),
        ),
        run=_remove_orphan_files,
    ),
    Procedure(
        name="reset_consumer",
        comment="Set the next snapshot of a consumer, or without it delete the consumer.",
        parameters=(
            TABLE,
            text("consumerId", "the name of the consumer", is_required=True),
            number("nextSnapshotId", "the snapshot that the consumer reads next"),
        ),
        run=_reset_consumer,
    ),
    Procedure(
        name="clear_consumers",
        comment="Delete consumers by regular expressions.",
        parameters=(
            TABLE,
            text("includingConsumers", "which consumers; all by default"),
            text("excludingConsumers", "which of them stay"),
        ),
        run=_clear_consumers,
    ),
)
