"""Parsers of the values of options. All raise ValueError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lakelog.common.file_names import check_file_name, check_file_names
from lakelog.common.options import not_negative, parse_long, parse_names, parse_whole, takes

BUCKETS_MAX = 2_147_483_647  # files hold the number of buckets in 32 bits
DYNAMIC_BUCKETS_MAX = 32_767  # Paimon numbers dynamic buckets in 16 bits

Value = TypeVar("Value")


def by_level(parse: Callable[[str], Value]) -> Callable[[str], Mapping[int, Value]]:
    """A parser of pairs such as `0:avro,3:parquet`. Raises ValueError."""

    def parse_pairs(text: str) -> Mapping[int, Value]:
        pairs = (part.split(":", 1) for part in parse_names(text))
        return {not_negative(level.strip()): parse(value.strip()) for level, value in pairs}

    return parse_pairs


@takes("a positive number, -1 or -2")
def parse_bucket_count(text: str) -> int:
    """A number of buckets, -1 (dynamic, or none for append tables) or -2 (postponed). Raises ValueError."""
    count = parse_whole(text)
    if count == 0 or count < -2 or count > BUCKETS_MAX:
        raise ValueError(f"expected a number from 1 to {BUCKETS_MAX}, -1 or -2")
    return count


@takes("the name of a branch")
def parse_branch(text: str) -> str:
    """The name of a branch, a part of a path. Raises ValueError for an empty name and for one that leads elsewhere."""
    if not text.strip() or text == "~":
        raise ValueError("expected the name of a branch")
    return check_file_name(text)


def folder_below(text: str) -> str:
    """A folder below another, without slashes at its ends; empty for the other folder itself. Raises ValueError."""
    names = [name for name in text.split("/") if name]
    check_file_names(names)
    return "/".join(names)


def name_start(text: str) -> str:
    """The prefix of the names of files. Raises ValueError."""
    check_file_name(f"{text}x")
    return text


@takes("a positive number, or -1")
def bucket_limit(text: str) -> int:
    """A number of dynamic buckets, or -1 for no limit."""
    number = parse_long(text)
    if number != -1 and not 1 <= number <= DYNAMIC_BUCKETS_MAX:
        raise ValueError(f"expected a number from 1 to {DYNAMIC_BUCKETS_MAX}, or -1 for none")
    return number


@takes("a number from 0 to 23, or -1")
def hour(text: str) -> int:
    """An hour of the day, or -1 for none."""
    number = parse_long(text)
    if not -1 <= number <= 23:
        raise ValueError("expected an hour from 0 to 23, or -1 for none")
    return number
