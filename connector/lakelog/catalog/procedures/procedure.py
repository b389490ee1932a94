"""What a procedure is: its parameters, what it does, and the rows that it answers; and that of a declared verb."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any  # Any: values of parameters have the type that their parameter names

import pyarrow as pa

from lakelog.catalog.verbs.declared import answer_of, parsed
from lakelog.common.errors import InvalidRequestError
from lakelog.warehouse.verb import FORCE, Kind

if TYPE_CHECKING:
    from lakelog.catalog.system.table_opener import TableOpener
    from lakelog.catalog.verbs.declared import DeclaredVerb
    from lakelog.warehouse.verb import Call
    from lakelog.warehouse.verb import Parameter as VerbParameter

# The types of parameters, by their names in Spark's SQL.
STRING, BIGINT, BOOLEAN = "STRING", "BIGINT", "BOOLEAN"
_TYPES = {Kind.NUMBER: BIGINT, Kind.TIME: BIGINT, Kind.FLAG: BOOLEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter; one that is not required is null when it is left out.

    `of` is what `run` knows the value by, where two names mean one parameter: Paimon's and that of Python.
    """

    name: str
    kind: str
    comment: str
    of: str
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure. `run` gets the catalog, the values of the parameters that are not null and the time zone."""

    name: str
    comment: str
    parameters: tuple[Parameter, ...]
    run: Callable[[TableOpener, Mapping[str, Any], str], pa.Table]

    def call(self, catalog: TableOpener, values: Mapping[str, Any], *, zone: str) -> pa.Table:
        """Run the procedure; times without a zone are in `zone`.

        Raises InvalidRequestError for a required parameter that is null and for one that is given under two names; and
        as the verb.
        """
        given: dict[str, Any] = {}
        for parameter in self.parameters:
            value = values.get(parameter.name)
            if value is not None and parameter.of in given:
                twice = [one.name for one in self.parameters if one.of == parameter.of]
                raise InvalidRequestError(f"procedure {self.name}: {' and '.join(twice)} mean the same: give one")
            if value is not None:
                given[parameter.of] = value
        for parameter in self.parameters:
            if parameter.is_required and parameter.of not in given:
                raise InvalidRequestError(f"procedure {self.name} needs {parameter.name}: {parameter.comment}")
        return self.run(catalog, given, zone)


TABLE = Parameter(name="table", kind=STRING, comment="The table, as database.table.", of="table", is_required=True)


def rows(columns: Mapping[str, Sequence[object]]) -> pa.Table:
    """An answer of several rows."""
    return pa.table({name: _column([_cell(value) for value in values]) for name, values in columns.items()})


def _column(values: Sequence[object]) -> pa.Array:
    """The values; a column without any is one of strings."""
    return pa.array(values) if any(value is not None for value in values) else pa.array(values, pa.string())


def _cell(value: object) -> object:
    """A value of SQL: a list as a string with commas, what has members as JSON."""
    if isinstance(value, list | tuple) and not any(isinstance(one, dict) for one in value):
        return ", ".join(str(one) for one in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple | Mapping) else value


def procedure_of(declared: DeclaredVerb, call: Call) -> Procedure:
    """A procedure that calls a declared verb."""
    verb = declared.verb
    known = verb.parameters()

    def run(catalog: TableOpener, values: Mapping[str, Any], zone: str) -> pa.Table:
        table = catalog.load_table(values["table"])
        given = {name: parsed(known[name], value, zone=zone) for name, value in values.items() if name in known}
        is_forced = given.pop(FORCE, False)
        lost = None if is_forced else verb.lost(declared.owner(table), **given)
        if lost is not None:
            raise InvalidRequestError(f"{lost}; add force => true to do so")
        if call.run is None:
            found = declared.call(table, given)
        else:
            also = {name: values.get(name) for name in call.also}
            found = call.run(declared.owner(table), {**given, **also})
        answer = answer_of(verb, found)
        return rows({name: [row[name] for row in answer] for name in verb.answer or answer[0]})

    return Procedure(name=call.name, comment=verb.summary, parameters=_parameters(call, known), run=run)


def _parameters(call: Call, known: Mapping[str, VerbParameter]) -> tuple[Parameter, ...]:
    """Those that the procedure names, then the others of the verb; at the end Python's names of the former."""
    names = dict(call.names)
    first = {of: name for name, of in names.items()}
    for name, one in known.items():  # `table$branch_b` names a branch: only the branch that a verb is about is one here
        is_taken = name in names or name in first or (name == "branch" and not one.is_required)
        if not is_taken and (not call.needs or name == FORCE):
            names[name] = first[name] = name
    required = {name for name, one in known.items() if one.is_required}
    names |= {of: of for of in first if of not in names}
    found = [
        Parameter(
            name=name,
            kind=STRING if of in call.also else _TYPES.get(known[of].kind, STRING),
            comment=call.also[of] if of in call.also else known[of].help,
            of=of,
            is_required=first[of] == name and of not in call.optional and (of in call.needs or of in required),
        )
        for name, of in names.items()
    ]
    return (TABLE, *found)
