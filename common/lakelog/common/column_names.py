"""Names of columns as Spark compares them: case counts only between names that differ in nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed

_CLOSEST_MAX = 3


def matching(name: str, names: Iterable[str], *, is_case_sensitive: bool = False) -> list[str]:
    """The names that `name` may mean: the equal one, otherwise those that differ only in case."""
    known = list(names)
    exact = [one for one in known if one == name]
    return exact if exact or is_case_sensitive else [one for one in known if one.lower() == name.lower()]


def known_columns(name: str, names: Sequence[str]) -> str:
    """What an error says about a name that no column has: the existing columns, and those with the closest names."""
    lower = {one.lower(): one for one in names}
    near = [lower[one] for one in get_close_matches(name.lower(), lower, n=_CLOSEST_MAX)]
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"the columns are {listed(names)}{hint}"


def spelled_name(name: str, names: Sequence[str], *, what: str, is_case_sensitive: bool = False) -> str:
    """The one of `names` that `name` means. `what` begins the error.

    Raises InvalidRequestError for a name that is not among them, and for an ambiguous one.
    """
    found = matching(name, names, is_case_sensitive=is_case_sensitive)
    if not found:
        raise InvalidRequestError(f"{what}: column {name!r} does not exist; {known_columns(name, names)}")
    if len(found) > 1:
        raise InvalidRequestError(
            f"{what}: column {name!r} is ambiguous: {listed(found)}; write the name in its exact case"
        )
    return found[0]


def given_names(given: object, *, what: str) -> tuple[str, ...]:
    """The names in an argument; a string is one name. Raises InvalidRequestError, naming `what`."""
    if isinstance(given, str):
        return (given,)
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else ()
    if not isinstance(given, Iterable) or isinstance(given, bytes) or not all(isinstance(name, str) for name in names):
        raise InvalidRequestError(f"{what} takes a column name or a list of them, found {cut(repr(given))}")
    return names


def spelled(given: object, names: Sequence[str], *, what: str, is_case_sensitive: bool = False) -> tuple[str, ...]:
    """The names in the argument `what` as the table spells them, in the order in which they are given.

    `is_case_sensitive` is the setting of a Spark session. Raises InvalidRequestError for a name that is not among
    `names`, for an ambiguous name, and for one that is given twice.
    """
    found: list[str] = []
    known = set(names)
    for name in given_names(given, what=what):
        column = name
        if name not in known:
            column = spelled_name(name, names, what=what, is_case_sensitive=is_case_sensitive)
        if column in found:
            raise InvalidRequestError(f"{what} names the column {column!r} twice; name it once")
        found.append(column)
    return tuple(found)
