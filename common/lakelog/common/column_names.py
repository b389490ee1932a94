"""Names of columns as users write them, compared as Spark compares them: case only counts where names need it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cut, listed


def matching(name: str, names: Iterable[str]) -> list[str]:
    """The names that `name` may mean: the equal one, else those that differ in case only."""
    known = list(names)
    exact = [one for one in known if one == name]
    return exact or [one for one in known if one.lower() == name.lower()]


def given_names(given: object, *, what: str) -> tuple[str, ...]:
    """The names in an argument that takes several: a string is one name. Raises InvalidRequestError, naming `what`."""
    if isinstance(given, str):
        return (given,)
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else ()
    if not isinstance(given, Iterable) or isinstance(given, bytes) or not all(isinstance(name, str) for name in names):
        raise InvalidRequestError(f"{what} takes a column name or a list of them, found {cut(repr(given))}")
    return names


def spelled(given: object, names: Sequence[str], *, what: str) -> tuple[str, ...]:
    """The names in the argument `what` as the table spells them, in the order in which they are given.

    Raises InvalidRequestError for a name that is not among `names`, one that may be any of several, and one that is
    given twice.
    """
    found: list[str] = []
    known = set(names)
    for name in given_names(given, what=what):
        candidates = [name] if name in known else matching(name, names)
        if not candidates:
            raise InvalidRequestError(f"{what}: column {name!r} does not exist; the columns are {listed(names)}")
        if len(candidates) > 1:
            raise InvalidRequestError(
                f"{what}: column {name!r} may be any of {listed(candidates)}; write the name in its own case"
            )
        if candidates[0] in found:
            raise InvalidRequestError(f"{what} names the column {candidates[0]!r} twice; name it once")
        found.append(candidates[0])
    return tuple(found)
