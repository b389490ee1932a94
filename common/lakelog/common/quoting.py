"""How errors quote files, records, options and tables: enough to find the thing, however large it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sized
from unicodedata import category

VALUE_MAX = 80
NAMES_MAX = 20
CAUSE_MAX = 500
_JOINERS = "\u200c\u200d"  # words of some languages and some emoji need them
_SPACES = "Zs"  # such as the ideographic space
_LONG = range(-(1 << 63), 1 << 63)


def cut(text: str, length_max: int = VALUE_MAX) -> str:
    """The string; only the beginning of a long one."""
    return text if len(text) <= length_max else f"{text[:length_max]}..."


def printable(text: str) -> str:
    """The string for a terminal or a picture, with U+FFFD for characters that do not print."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in text)


def escaped(text: str, *, kept: str = "") -> str:
    """The string for a terminal, a notebook or a log: what does not print becomes an escape of JSON, as \\u001b.

    So control sequences, line ends, direction marks and halves of characters are visible but have no effect, and a line
    of JSON stays the same JSON. `kept` are characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_harmless(one) or one in kept else json.dumps(one)[1:-1] for one in text)


def _is_harmless(one: str) -> bool:
    return one.isprintable() or one in _JOINERS or category(one) == _SPACES


def is_unicode(text: str) -> bool:
    """Whether the string can be written in UTF-8: odd file names have halves of characters for their bytes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unicode_of(text: str) -> str:
    """The string, with escapes for characters that UTF-8 cannot write, so that a column of a table can hold it."""
    return text if is_unicode(text) else escaped(text)


def quoted(name: str) -> str:
    """A name in SQL, in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def shown(value: object) -> str:
    """A value as errors show it: a large one is cut."""
    if isinstance(value, dict | list):
        return _counted("an object", "member", value) if isinstance(value, dict) else _counted("a list", "item", value)
    if isinstance(value, str):
        value = value[: 2 * VALUE_MAX]
    return cut(repr(value)) if not isinstance(value, int) or value in _LONG else "a number of more than 64 bits"


def typed(value: object) -> str:
    """A value of a wrong type as errors show it: such as `the int 5`, `a list of 1 item` or `None`."""
    if value is None or isinstance(value, dict | list):
        return shown(value)
    return f"the {type(value).__name__} {shown(value)}"


def _counted(what: str, part: str, value: Sized) -> str:
    """Such as `a list of 1 item`; `an empty list` without any."""
    if not len(value):
        return f"an empty {what.rsplit(maxsplit=1)[-1]}"
    return f"{what} of {len(value)} {part}{'' if len(value) == 1 else 's'}"


def listed(names: Iterable[object], *, names_max: int = NAMES_MAX) -> str:
    """Names with commas between them; of many, the first ones and their number. Empty without names.

    What does not print in a name is escaped.
    """
    shown_names = [str(name) for name in names]
    few = ", ".join(escaped(cut(name)) for name in shown_names[:names_max])
    return few if len(shown_names) <= names_max else f"{few}, ... ({len(shown_names)} in all)"


def cause(error: BaseException) -> str:
    """An error, as it is quoted by the error that is raised from it."""
    return cut(repr(error), CAUSE_MAX)


def without_middle(text: str, length_max: int) -> str:
    """The string; only the beginning and the end of a long one."""
    if len(text) <= length_max:
        return text
    part = length_max // 2
    return f"{text[:part]} ... ({len(text)} characters) ... {text[-part:]}"
