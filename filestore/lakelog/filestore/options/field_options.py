"""Options of single columns: keys `fields.<columns>.<suffix>` are parsed and built only here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakelog.common.errors import OptionError
from lakelog.common.options import parse_names

PREFIX = "fields."
AGGREGATE = "aggregate-function"
DEFAULT_AGGREGATE = f"{PREFIX}default-aggregate-function"  # names no column: it applies to all columns
MAP_LAYOUT = "map.storage-layout"
SEQUENCE_GROUP = "sequence-group"
STATS_MODE = "stats-mode"
# Paimon's suffixes after the names of columns, including those that lakelog refuses: a user's key with another suffix
# is a mistake.
SUFFIXES = (
    AGGREGATE,
    "count-limit",
    "distinct",
    "ignore-retract",
    "list-agg-delimiter",
    MAP_LAYOUT,
    "nested-key",
    "nested-key-null-strategy",
    "nested-sequence-field",
    SEQUENCE_GROUP,
    STATS_MODE,
)


@dataclass(frozen=True, slots=True)
class FieldOption:
    """`fields.<names>.<suffix>` and its value."""

    names: tuple[str, ...]
    suffix: str
    value: str

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that the key or the value names."""
        return self.names + (parse_names(self.value) if self.suffix == SEQUENCE_GROUP else ())


def field_key(name: str, suffix: str) -> str:
    """The key of an option of the column `name`, or of several columns separated by commas."""
    return f"{PREFIX}{name}.{suffix}"


def field_option(key: str, value: str) -> FieldOption | None:
    """The parts of an option; None for an option that names no column in its key."""
    if not key.startswith(PREFIX):
        return None
    names, _, suffix = key.removeprefix(PREFIX).rpartition(".")
    if key.endswith(f".{MAP_LAYOUT}"):
        names, suffix = names.rpartition(".")[0], MAP_LAYOUT
    return FieldOption(parse_names(names), suffix, value) if names else None


def check_suffix(key: str) -> None:
    """Raise OptionError, with the nearest key, for a key `fields.*` that a user gives and that no engine knows."""
    names = key.removeprefix(PREFIX).rpartition(".")[0]
    if key == DEFAULT_AGGREGATE or (names and key.endswith(tuple(f".{one}" for one in SUFFIXES))):
        return
    raise OptionError.unknown(key, [field_key(names, one) for one in SUFFIXES] if names else [DEFAULT_AGGREGATE])


def field_options(options: Mapping[str, str]) -> Iterator[tuple[str, FieldOption]]:
    """The options that name columns in their keys, each with its key."""
    for key, value in options.items():
        option = field_option(key, value)
        if option is not None:
            yield key, option
