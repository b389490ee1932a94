"""Options whose keys or values name columns, and options that cannot change once rows are stored. Pure.

`fields.<columns>.<suffix>` names columns in its key, `fields.<columns>.sequence-group` in its value too, and a few
options are lists of columns. Source: Paimon, `SchemaManager` (options of a renamed column) and `CoreOptions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lakelog.common.column_names import known_columns, matching, spelled_name
from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.common.options import parse_names
from lakelog.common.quoting import shown
from lakelog.filestore.options import is_same
from lakelog.filestore.options.field_options import (
    DEFAULT_AGGREGATE,
    SEQUENCE_GROUP,
    field_key,
    field_option,
    field_options,
)
from lakelog.filestore.options.layout import (
    BUCKET,
    BUCKET_FUNCTION,
    BUCKET_KEY,
    DATA_FILE_DIRECTORY,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    PARTITION,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    PARTITION_TIMESTAMP_PATTERN,
    PRIMARY_KEY,
    TABLE_UUID,
)
from lakelog.filestore.options.merging import (
    AGGREGATION_REMOVE_ON_DELETE,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    DELETION_VECTORS_MERGE_ON_READ,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    WRITE_MODE,
)

# Stored rows depend on these: on their folder, their bucket, their order, or the merge of the rows of a key.
_FIXED = frozenset(
    option.key
    for option in (
        AGGREGATION_REMOVE_ON_DELETE,
        BUCKET_FUNCTION,
        BUCKET_KEY,
        CHANGELOG_PRODUCER,
        DATA_FILE_DIRECTORY,
        DELETION_VECTORS,
        DELETION_VECTORS_MERGE_ON_READ,
        DYNAMIC_BUCKET_INITIAL_BUCKETS,
        IGNORE_DELETE,
        MERGE_ENGINE,
        PARTIAL_UPDATE_REMOVE_ON_DELETE,
        PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
        PARTITION,
        PARTITION_DEFAULT_NAME,
        PARTITION_LEGACY_NAME,
        PRIMARY_KEY,
        ROWKIND_FIELD,
        SEQUENCE_FIELD,
        SEQUENCE_FIELD_SORT_ORDER,
        WRITE_MODE,
    )
) | {
    *IGNORE_DELETE.older_keys,
    DEFAULT_AGGREGATE,
    "data-evolution.enabled",
    "force-lookup",
    "ignore-update-before",
    "index-file-in-data-file-dir",
    "pk-clustering-override",
    "primary-key.nullable",
    "row-tracking.enabled",
    "sequence.snapshot-ordering",
    "type",
}
# Their values are lists of columns. Some are options of other engines, which their tables may hold.
_LISTS = frozenset(
    {
        BUCKET_KEY.key,
        ROWKIND_FIELD.key,
        SEQUENCE_FIELD.key,
        "changelog-producer.row-deduplicate-ignore-fields",
        "clustering.columns",
        PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key,
        "record-level.time-field",
    }
)
_INDEX_PREFIX, _INDEX_SUFFIX = "file-index.", ".columns"
_MAP_KEY = "["  # the values of one key of a MAP: `tags[color]`
_VARIABLE = re.compile(r"(?<=\$)\w+")  # a column in a pattern


def check_changeable(key: str, found: str | None, wanted: str | None) -> None:
    """Raise InvalidRequestError for a new value of an option that never changes. None is unset."""
    if found == wanted or (found is not None and wanted is not None and is_same(key, found, wanted)):
        return
    if key == BUCKET.key:
        raise InvalidRequestError(
            f"option {key!r} cannot be changed from {found} to {wanted} like this: rows must move between the buckets; "
            "use Table.upkeep.rescale or `lakelog table rescale`"
        )
    if key == TABLE_UUID.key:
        raise InvalidRequestError(f"option {key!r} is the identity of the table, set by lakelog, and cannot be changed")
    if key in _FIXED:
        raise InvalidRequestError(
            f"option {key!r} cannot be changed from {found} to {wanted}: the stored rows were written by it; make a "
            "table with it, and copy the rows"
        )


def renamed_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with a column under its new name."""

    def names(found: Sequence[str]) -> str:
        return ",".join(new if name == old else name for name in found)

    renamed: dict[str, str] = {}
    for key, value in options.items():
        option = field_option(key, value)
        if option is not None and old in option.named:
            is_group = option.suffix == SEQUENCE_GROUP
            renamed[field_key(names(option.names), option.suffix)] = names(parse_names(value)) if is_group else value
        elif _is_list(key) and old in parse_names(value):
            renamed[key] = names(parse_names(value))
        else:
            renamed[key] = value
    return renamed


def spelled_options(options: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Options as users give them, with column names as the table spells them. See `spelled_option`.

    Raises OptionError for two options that become the same one.
    """
    spelled: dict[str, str] = {}
    for key, value in options.items():
        own_key, own_value = spelled_option(key, value, names)
        if own_key in spelled:
            raise OptionError(f"option {own_key!r} is given twice, in names that differ only in case; give it once")
        spelled[own_key] = own_value
    return spelled


def spelled_option(key: str, value: str, names: Sequence[str]) -> tuple[str, str]:
    """An option with the column names in its key and value as the table, which has `names`, spells them.

    Anything that is not a column is not changed. Raises InvalidRequestError for a name that may be any of several
    columns.
    """

    def spell(name: str) -> str:
        return spelled_name(name, names, what=f"option {key!r}") if matching(name, names) else name

    def spell_list(text: str) -> str:
        given = parse_names(text)
        own = [spell(name) for name in given]
        return text if own == [*given] else ",".join(own)

    option = field_option(key, value)
    if option is not None:
        own = tuple(spell(name) for name in option.names)
        own_key = key if own == option.names else field_key(",".join(own), option.suffix)
        return own_key, spell_list(value) if option.suffix == SEQUENCE_GROUP else value
    if key == PARTITION_TIMESTAMP_PATTERN.key:
        return key, _VARIABLE.sub(lambda found: spell(found[0]), value)
    return key, spell_list(value) if _is_list(key) else value


def check_named_columns(options: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise InvalidRequestError for an option that names a missing column: it would have no effect."""
    for key, value in options.items():
        for name in columns_named(key, value):
            if name.partition(_MAP_KEY)[0] not in names:
                raise InvalidRequestError(
                    f"option {key!r} = {shown(value)} names the column {name!r}, which does not exist; "
                    f"{known_columns(name, names)}"
                )


def columns_named(key: str, value: str) -> tuple[str, ...]:
    """The columns that an option names in its key or value."""
    option = field_option(key, value)
    return option.named if option is not None else parse_names(value) if _is_list(key) else ()


def options_naming(options: Mapping[str, str], name: str) -> Iterator[str]:
    """The keys of the options that name a column."""
    return (key for key, value in options.items() if name in columns_named(key, value))


def merge_rules(options: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """For each column that `fields.*` options name: how its values are merged."""
    rules: dict[str, dict[str, object]] = {}
    for _, option in field_options(options):
        if option.suffix == SEQUENCE_GROUP:
            for name in option.names:
                rules.setdefault(name, {})["orders a group"] = option.names
            for name in parse_names(option.value):
                rules.setdefault(name, {})[SEQUENCE_GROUP] = option.names
        else:
            for name in option.names:
                rules.setdefault(name, {})[option.suffix] = option.value
    return rules


def _is_list(key: str) -> bool:
    return key in _LISTS or (key.startswith(_INDEX_PREFIX) and key.endswith(_INDEX_SUFFIX))
