"""A verb of a table: declared once, at its method, for Python, the command line and CALL.

The signature and the docstring of the method say the parameters, their defaults and what the verb does; the decorator
`verb` adds what only the other doors need: what a parameter is for, the names of Paimon's procedure, the columns of the
answer, and what the verb can lose. A verb that loses something is refused in Python without `force=True`; the command
line asks a question, and CALL wants `force => true`. `lakelog --help` must not wait for Arrow, so this imports little.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar  # Any: methods of all kinds, and what they return

from lakelog.common.errors import InvalidRequestError

Method = TypeVar("Method", bound=Callable[..., Any])
Column = str | Callable[[Any], object]
Answer = Mapping[str, Column]
FORCE = "force"
DRY_RUN = "dry_run"
_DECLARED = "lakelog_verb"
_ONLY_PYTHON = re.compile(r"; (?:returns|None|then|without) ")
_UNPACKED_STATE = "Unpack[SnapshotChoice]"


class Loses(StrEnum):
    """What a verb takes away that nothing brings back, beside what its name says."""

    NOTHING = "nothing"
    NEWER_SNAPSHOTS = "newer snapshots"
    RECORDS = "records"


class Kind(StrEnum):
    """What the value of a parameter is, in the doors that know strings, numbers and flags alone."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TIME = "time"
    AGE = "age"
    CONDITION = "condition"
    NAMES = "names"
    PAIRS = "pairs"
    RULES = "rules"


_KINDS: Mapping[str, Kind] = {
    "str": Kind.TEXT,
    "str | int": Kind.TEXT,
    "Duration": Kind.TEXT,
    "int": Kind.NUMBER,
    "bool": Kind.FLAG,
    "Timestamp": Kind.TIME,
    "Age": Kind.AGE,
    "str | Predicate": Kind.CONDITION,
    "str | Sequence[str]": Kind.NAMES,
    "Mapping[str, str]": Kind.PAIRS,
    "str | Mapping[str, str]": Kind.RULES,
}
# The keywords of `SnapshotChoice`, in the order in which CALL takes them.
STATE: Mapping[str, str] = {
    "version": "str | int | None",
    "snapshot_id": "int | None",
    "tag": "str | None",
    "timestamp": "Timestamp | None",
    "watermark": "int | None",
    "branch": "str | None",
}
_HELP: Mapping[str, str] = {
    "version": "The state that this tag, snapshot, branch, or branch.tag names, in this order.",
    "snapshot_id": "The snapshot of this number.",
    "tag": "The snapshot that this tag keeps.",
    "timestamp": "The newest snapshot at this time; in UTC without a zone.",
    "watermark": "The first snapshot with this watermark or a later one.",
    "branch": "Of this branch, not of the table.",
    "where": "Only rows that meet this SQL condition.",
    "if_exists": "Succeed if it does not exist.",
    "if_not_exists": "Leave one that exists as it is.",
    "dry_run": "Say what would be done; change nothing.",
    "force": "State that what is lost may be lost.",
    "new_name": "The new name.",
    "renew_log": "Of a table with a log: end the log, and add one with a new topic.",
    "rewind_writers": "Let writers write their batches since then again.",
    "keep_topic": "Leave the topic in Kafka.",
    "skip_unreadable": "Leave out records of other programs, and what follows them in their bucket.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a verb, by its name in Python; one without a default is required."""

    name: str
    kind: Kind
    help: str
    default: object = None
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A procedure by which CALL calls a verb.

    `takes` names the parameters in the order of their positions, those with another name in Python as
    `tag=name, time_retained`; the verb's other parameters follow, unless the procedure is one of several for the verb:
    `needs` are what it requires then. `optional` are parameters that only the method requires. `also` has parameters
    that only Paimon has, with their help; `run`, called with the verb's group and all values, replaces the call of the
    method, for values that mean something else there.
    """

    name: str
    takes: str = ""
    needs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[Any, Mapping[str, Any]], object] | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """The procedure's name of each parameter in `takes` -> that of Python."""
        pairs = (one.strip().partition("=") for one in self.takes.split(",") if one)
        return {theirs: ours or theirs for theirs, _, ours in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """The declaration of a verb.

    `answer` has the columns of what the other doors answer: the path of an attribute of what the method returns, or a
    function of it; `parts` are lists of rows, for the command line alone, and `brief` the columns of its grid, if these
    are fewer. `nothing` is printed when the method returns None. `command` has the words of the command where it is not
    named as the method of its group; `is_problem` says of which answers to which values the command ends
    with exit code 3.
    """

    method: Callable[..., Any]
    loses: Loses
    loss: Callable[..., str | None] | None
    calls: tuple[Call, ...]
    help: Mapping[str, str]
    answer: Answer
    parts: Answer
    brief: tuple[str, ...] | None
    nothing: str
    command: str | None
    panel: str | None
    is_problem: Callable[[Any, Mapping[str, Any]], bool] | None

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.__name__

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without what is returned."""
        return f"{_ONLY_PYTHON.split(self.text, maxsplit=1)[0].partition('. ')[0].rstrip('.')}."

    @property
    def text(self) -> str:
        """The first line of the docstring, without the errors."""
        return (inspect.getdoc(self.method) or "").split("\n")[0].partition(" Raises ")[0].replace("`", "")

    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the method, by name. Raises TypeError for one of an unknown type or without help."""
        found: dict[str, Parameter] = {}
        for one in list(inspect.signature(self.method).parameters.values())[1:]:
            if str(one.annotation) == _UNPACKED_STATE:
                for name, annotation in STATE.items():
                    found.setdefault(name, self._parameter(name, annotation, None))
                continue
            found[one.name] = self._parameter(one.name, str(one.annotation), one.default)
        return found

    def _parameter(self, name: str, annotation: str, default: object) -> Parameter:
        kind = _KINDS.get(annotation.removesuffix(" | None"))
        text = self.help.get(name) or _HELP.get(name)
        if kind is None or text is None:
            raise TypeError(f"{self.method.__qualname__}: {name}: {annotation} needs a kind and a help")
        is_required = default is inspect.Parameter.empty
        return Parameter(
            name=name, kind=kind, help=text, default=None if is_required else default, is_required=is_required
        )

    def lost(self, group: object, *given: object, **values: object) -> str | None:
        """What a call would lose, as a sentence without its full stop; None if it loses nothing."""
        if self.loss is None or values.get(DRY_RUN):
            return None
        return self.loss(
            group, *given, **{name: value for name, value in values.items() if name not in (FORCE, DRY_RUN)}
        )


def verb(
    *,
    loses: Loses = Loses.NOTHING,
    loss: Callable[..., str | None] | None = None,
    calls: tuple[Call, ...] = (),
    help: Mapping[str, str] | None = None,
    answer: Answer | None = None,
    parts: Answer | None = None,
    brief: tuple[str, ...] | None = None,
    nothing: str = "nothing to do",
    command: str | None = None,
    panel: str | None = None,
    is_problem: Callable[[Any, Mapping[str, Any]], bool] | None = None,
) -> Callable[[Method], Method]:
    """Declare a method as a verb, see `Verb`. One that loses something is refused unless it is called with `force`."""

    def declare(method: Method) -> Method:
        declared = Verb(
            method=method,
            loses=loses,
            loss=loss,
            calls=calls,
            help=help or {},
            answer=answer or {},
            parts=parts or {},
            brief=brief,
            nothing=nothing,
            command=command,
            panel=panel,
            is_problem=is_problem,
        )
        made = method if loss is None else _guarded(declared, method)
        setattr(made, _DECLARED, declared)
        return made

    return declare


def _guarded(declared: Verb, method: Method) -> Method:
    @functools.wraps(method)
    def guarded(group: object, *given: object, **values: object) -> object:
        lost = None if values.get(FORCE) else declared.lost(group, *given, **values)
        if lost is not None:
            raise InvalidRequestError(f"{lost}; give force=True to do so")
        return method(group, *given, **values)

    return guarded  # type: ignore[return-value]  # it has the signature of the method


def verb_of(method: object) -> Verb | None:
    """The declaration of a method; None for one that is not declared."""
    return getattr(method, _DECLARED, None)


def value_at(found: object, column: Column) -> object:
    """The value of a column of an answer: an attribute of an attribute, None where one is None; or a function's."""
    if not isinstance(column, str):
        return column(found)
    for name in column.split(".") if column else ():
        found = None if found is None else getattr(found, name)
    return found
