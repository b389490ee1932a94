"""All declared verbs of a table, and how doors that know strings call them and show their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any  # Any: groups, and values of parameters

from lakelog.catalog.verbs.group import VerbGroup
from lakelog.catalog.verbs.table import Table
from lakelog.warehouse.verb import FORCE, Kind, Parameter, Verb, value_at, verb_of

RESULT = "result"  # the column of an answer that says only that a verb was done
_MILLIS = "_millis"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVerb:
    """A verb, and where it is: `group` is the property of `Table` that has it, None for a method of `Table`.

    `place` has the words of its group of commands behind `lakelog`, `panel` is their heading in `--help`.
    """

    group: str | None
    place: str
    panel: str | None
    verb: Verb

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command behind `lakelog`."""
        given = self.verb.command
        return tuple((f"{self.place} {self.verb.name.replace('_', '-')}" if given is None else given).split())

    @property
    def python(self) -> str:
        """The method as users write it, behind the table."""
        return f"{self.group}.{self.verb.name}" if self.group else self.verb.name

    def owner(self, table: Table) -> Any:
        """What has the method: a group of a table, or the table."""
        return table if self.group is None else getattr(table, self.group)

    def call(self, table: Table, values: Mapping[str, Any]) -> Any:
        """Call the method; the door has asked whether what it loses may be lost."""
        force = {} if self.verb.loss is None else {FORCE: True}
        return getattr(self.owner(table), self.verb.name)(**values, **force)


def declared_verbs() -> Iterator[DeclaredVerb]:
    """The verbs of the groups and of the table itself, as they stand in the code."""
    kinds: list[tuple[str | None, Any]] = [*table_groups().items(), (None, Table)]
    for group, kind in kinds:
        members = {name: member for owner in reversed(kind.__mro__) for name, member in vars(owner).items()}
        for found in filter(None, map(verb_of, members.values())):
            panel = found.panel or getattr(kind, "panel", None)
            yield DeclaredVerb(group=group, place=kind.place, panel=panel, verb=found)


def table_groups() -> Mapping[str, type[VerbGroup[Any]]]:
    """The groups of verbs of a table, by their properties."""
    found = {}
    for name, member in vars(Table).items():
        if isinstance(member, property) and member.fget is not None:
            kind = member.fget.__globals__.get(str(member.fget.__annotations__["return"]).partition("[")[0])
            if isinstance(kind, type) and issubclass(kind, VerbGroup):
                found[name] = kind
    return found


def parsed(parameter: Parameter, given: object, *, zone: str) -> object:
    """A value that was given as a string, a number or a flag. Raises InvalidRequestError; times are in `zone`."""
    match parameter.kind:
        case Kind.CONDITION:
            from lakelog.filestore.predicate import required_predicate

            return required_predicate(str(given), zone=zone)
        case Kind.NAMES:
            from lakelog.common.options import parse_names

            return parse_names(str(given))
        case Kind.AGE:
            from lakelog.catalog.names.durations import age_or_time

            return age_or_time(str(given), zone=zone, argument=parameter.name)
        case Kind.PAIRS | Kind.RULES:
            return _pairs(parameter, given if isinstance(given, list) else str(given).split(","))
    return given


def _pairs(parameter: Parameter, given: Sequence[str]) -> object:
    """KEY=VALUE, several of them; of rules also one rule for all."""
    from lakelog.common.errors import InvalidRequestError

    if parameter.kind is Kind.RULES and len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [one.partition("=") for one in given]
    for text, (_, equals, _) in zip(given, pairs, strict=True):
        if not equals:
            raise InvalidRequestError(f"{parameter.name} {text!r} has no value; expected KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


def answer_of(verb: Verb, found: object) -> list[dict[str, object]]:
    """The rows of an answer: one for each item of a list, else one; times are strings in UTC."""
    if not verb.answer:
        return [{RESULT: True}]
    items = found if isinstance(found, list | tuple) else [found]
    return [{name: _cell(name, item, column) for name, column in verb.answer.items()} for item in items]


def _cell(name: str, item: object, column: object) -> object:
    value = value_at(item, column)  # type: ignore[arg-type]  # a column of an answer
    if isinstance(column, str) and column.endswith(_MILLIS) and not name.endswith(_MILLIS) and value is not None:
        from lakelog.common.timestamps import utc_of

        return utc_of(value)  # type: ignore[arg-type]  # as its name says
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return value.value if isinstance(value, Enum) else value
