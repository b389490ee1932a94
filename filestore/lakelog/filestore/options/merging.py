"""Options of merging rows with one key, and of the changelog."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakelog.common.options import Option, choice, parse_bool, parse_names

_NO_NAMES: tuple[str, ...] = ()


class MergeEngine(StrEnum):
    """How several rows with one key are merged: `traits` say what follows, `lakelog.filestore.merge` merges."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"

    @property
    def traits(self) -> EngineTraits:
        """What the engine does with the rows of a key."""
        return _TRAITS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """What a merge engine does with the rows of a key: one row of this table for each engine."""

    keeps_last: bool = False  # the last row replaces those before it as a whole, and its delete removes it
    keeps_first: bool = False  # the row that was written first stays: later rows and deletes change nothing
    has_parts: bool = False  # a row in a file may be a part of the row of its key
    folds_all: bool = False  # every column that is not of the key is folded by a function


_TRAITS = {
    MergeEngine.DEDUPLICATE: EngineTraits(keeps_last=True),
    MergeEngine.PARTIAL_UPDATE: EngineTraits(has_parts=True),
    MergeEngine.AGGREGATION: EngineTraits(has_parts=True, folds_all=True),
    MergeEngine.FIRST_ROW: EngineTraits(keeps_first=True),
}


class StoreWriteMode(StrEnum):
    """The effect of the rows that are written to a table."""

    AUTO = "auto"  # change-log with a primary key, append-only without
    APPEND_ONLY = "append-only"
    CHANGE_LOG = "change-log"


class ChangelogProducer(StrEnum):
    """What writes changelog files."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class SortOrder(StrEnum):
    """Whether the largest or the smallest value comes last."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


WRITE_MODE = Option(
    key="write-mode",
    parse=choice(StoreWriteMode),
    default=StoreWriteMode.AUTO,
    doc="What written rows do: `append-only` tables take inserts alone, `change-log` tables deletes too, each of which "
    "takes one equal row away where there is no primary key. `auto` is `change-log` with a primary key and "
    "`append-only` without. The option of FLIP-188; Paimon has dropped it.",
)
MERGE_ENGINE = Option(
    key="merge-engine",
    parse=choice(MergeEngine),
    default=MergeEngine.DEDUPLICATE,
    doc="How several rows with one key are merged; `deduplicate` keeps the last.",
)
IGNORE_DELETE = Option(
    key="ignore-delete",
    parse=parse_bool,
    default=False,
    doc="Whether deletes are skipped.",
    older_keys=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
SEQUENCE_FIELD = Option(
    key="sequence.field",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that decide which row of a key is the last, before the order of arrival.",
)
SEQUENCE_FIELD_SORT_ORDER = Option(
    key="sequence.field.sort-order",
    parse=choice(SortOrder),
    default=SortOrder.ASCENDING,
    doc="Whether the row with the largest values of `sequence.field` is the last, or that with the smallest.",
)
PARTIAL_UPDATE_REMOVE_ON_DELETE = Option(
    key="partial-update.remove-record-on-delete",
    parse=parse_bool,
    default=False,
    doc="Whether a -D deletes the row of a table with `merge-engine=partial-update`.",
)
PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP = Option(
    key="partial-update.remove-record-on-sequence-group",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that order sequence groups: a -D that is the newest of such a group deletes the whole row.",
)
AGGREGATION_REMOVE_ON_DELETE = Option(
    key="aggregation.remove-record-on-delete",
    parse=parse_bool,
    default=False,
    doc="Whether a -D deletes the row of a table with `merge-engine=aggregation`.",
)
ROWKIND_FIELD = Option(
    key="rowkind.field",
    parse=str,
    default=None,
    doc="A column whose value (+I, -U, +U or -D) is the row kind of a written row.",
    kind="a column name",
)
CHANGELOG_PRODUCER = Option(
    key="changelog-producer",
    parse=choice(ChangelogProducer),
    default=ChangelogProducer.NONE,
    doc="What writes changelog files: `none`, `input`, `lookup` or `full-compaction`.",
)
CHANGELOG_ROW_DEDUPLICATE = Option(
    key="changelog-producer.row-deduplicate",
    parse=parse_bool,
    default=False,
    doc="Whether an update that leaves a row as it was is left out of the changelog.",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORED = Option(
    key="changelog-producer.row-deduplicate-ignore-fields",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that do not count when `changelog-producer.row-deduplicate` compares rows.",
)
DELETION_VECTORS = Option(
    key="deletion-vectors.enabled",
    parse=parse_bool,
    default=False,
    doc="Whether compactions mark overwritten rows in deletion vectors, so that reads need not merge; rows are seen "
    "once they are compacted.",
)
DELETION_VECTORS_64_BIT = Option(
    key="deletion-vectors.bitmap64",
    parse=parse_bool,
    default=False,
    doc="Whether deletion vectors are written in the 64 bit form, which is Iceberg's too.",
)
DELETION_VECTORS_MERGE_ON_READ = Option(
    key="deletion-vectors.merge-on-read",
    parse=parse_bool,
    default=False,
    doc="Whether reads of a table with deletion vectors show rows that are not compacted yet.",
)
