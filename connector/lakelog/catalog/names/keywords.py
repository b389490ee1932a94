"""Errors for calls with an unknown keyword; they name the known keywords."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar  # Any: methods of all kinds

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed

Class = TypeVar("Class", bound=type)


def naming_keywords(cls: Class) -> Class:
    """Let the public methods of a class raise InvalidRequestError, naming the known keywords, for an unknown one.

    The methods of its bases do so too, under the name of this class.
    """
    seen: set[str] = set()
    for owner in cls.__mro__:
        for name, method in list(vars(owner).items()):
            if name not in seen and inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _checked(method, f"{cls.__name__}.{name}"))
            seen.add(name)
    return cls


def keywords_of(method: Callable[..., Any]) -> Sequence[str]:
    """The names of a method's arguments, including those of an unpacked TypedDict."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    found = [one.name for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        from lakelog.catalog.names.read_words import ReadWords
        from lakelog.filestore.refs import SnapshotChoice

        unpacked = {"Unpack[ReadWords]": ReadWords, "Unpack[SnapshotChoice]": SnapshotChoice}
        found += unpacked[parameters[-1].annotation].__annotations__
    return found


def _checked(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    known: list[str] = []  # filled when the method is called, to keep the import quick

    @functools.wraps(method)
    def checked(*args: Any, **given: Any) -> Any:
        if given and not known:
            known.extend(keywords_of(method))
        for keyword in given:
            if keyword not in known:
                from lakelog.catalog.names.guesses import keyword_hint

                near, meant = get_close_matches(keyword, known, n=1), keyword_hint(keyword)
                hint = f"; did you mean {near[0]!r}?" if near else "" if meant is None else f"; here that is {meant}"
                raise InvalidRequestError(
                    f"{name} takes no keyword {keyword!r}; its keywords are {listed(known) or 'none'}{hint}"
                )
        return method(*args, **given)

    return checked
