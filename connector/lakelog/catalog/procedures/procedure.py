"""What a procedure is: its parameters, what it does, and the rows that it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any  # Any: values of parameters have the type that their parameter names

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_given_duration_millis
from lakelog.common.timestamps import parse_timestamp, zone_of
from lakelog.filestore.predicate import required_predicate

if TYPE_CHECKING:
    from lakelog.catalog.system.table_opener import TableOpener
    from lakelog.catalog.verbs.table import Table

# The types of parameters, by their names in Spark's SQL.
STRING, BIGINT, INT, BOOLEAN = "STRING", "BIGINT", "INT", "BOOLEAN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter; one that is not required is null when it is left out."""

    name: str
    kind: str
    comment: str
    is_required: bool = False
    parse: Callable[[str, str], object] | None = None  # what a string means in a time zone; None: the string itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure. `run` gets the catalog and the value of each parameter, and returns the rows of the answer."""

    name: str
    comment: str
    parameters: tuple[Parameter, ...]
    run: Callable[[TableOpener, Mapping[str, Any]], pa.Table]

    def call(self, catalog: TableOpener, values: Mapping[str, Any], *, zone: str) -> pa.Table:
        """Run the procedure; times without a zone are in `zone`.

        Raises InvalidRequestError for a required parameter that is null; and as the verb.
        """
        given = {parameter.name: values.get(parameter.name) for parameter in self.parameters}
        for parameter in self.parameters:
            value = given[parameter.name]
            if parameter.is_required and value is None:
                raise InvalidRequestError(f"procedure {self.name} needs {parameter.name}: {parameter.comment}")
            if parameter.parse is not None and value is not None:
                given[parameter.name] = parameter.parse(value, zone)
        return self.run(catalog, given)


TABLE = Parameter(name="table", kind=STRING, comment="the table, as database.table", is_required=True)


def text(name: str, comment: str, *, is_required: bool = False) -> Parameter:
    """A parameter that is a string."""
    return Parameter(name=name, kind=STRING, comment=comment, is_required=is_required)


def condition(name: str, comment: str, *, is_required: bool = False) -> Parameter:
    """A parameter that is a condition in SQL; the procedure gets its filter."""
    return Parameter(
        name=name,
        kind=STRING,
        comment=comment,
        is_required=is_required,
        parse=lambda given, zone: required_predicate(given, zone=zone),
    )


def age(name: str, comment: str) -> Parameter:
    """A parameter that is a duration such as `2 d`, or a time such as `2026-01-31 12:00:00`."""
    return Parameter(name=name, kind=STRING, comment=comment, parse=_age)


def number(name: str, comment: str, *, is_required: bool = False) -> Parameter:
    """A parameter that is a whole number of 64 bits."""
    return Parameter(name=name, kind=BIGINT, comment=comment, is_required=is_required)


def count(name: str, comment: str, *, is_required: bool = False) -> Parameter:
    """A parameter that is a whole number of 32 bits."""
    return Parameter(name=name, kind=INT, comment=comment, is_required=is_required)


def flag(name: str, comment: str) -> Parameter:
    """A parameter that is true or false; left out it is false."""
    return Parameter(name=name, kind=BOOLEAN, comment=comment)


FORCE = flag("force", "states that what the procedure drops may be lost")


def table_of(catalog: TableOpener, values: Mapping[str, Any]) -> Table:
    """The table that a call names; `database.table$branch_b` is a branch."""
    return catalog.load_table(values["table"])


def done(**columns: object) -> pa.Table:
    """An answer of one row. A list is a string with commas."""
    return rows({name: [_cell(value)] for name, value in columns.items()})


def rows(columns: Mapping[str, Sequence[object]]) -> pa.Table:
    """An answer of several rows."""
    return pa.table({name: _column(values) for name, values in columns.items()})


def _column(values: Sequence[object]) -> pa.Array:
    """The values; a column without any is one of strings."""
    return pa.array(values) if any(value is not None for value in values) else pa.array(values, pa.string())


def _cell(value: object) -> object:
    return ", ".join(str(one) for one in value) if isinstance(value, list | tuple) else value


def one_state(**named: object) -> Any:  # keywords that name a state
    """The keywords of a call that are not null. Raises InvalidRequestError for several of them."""
    found = {key: value for key, value in named.items() if value is not None}
    if len(found) > 1:
        raise InvalidRequestError(f"{' and '.join(found)} each name a state: give one")
    return found


def _age(given: str, zone: str) -> str | datetime:
    """The duration or the time. Raises InvalidRequestError for a string that is neither."""
    try:
        parse_given_duration_millis(given)
    except ValueError:
        return datetime.fromtimestamp(parse_timestamp(given, zone_of(zone)) / 1000, tz=UTC)
    return given


def check_forced(values: Mapping[str, Any], what: str) -> None:
    """Raise InvalidRequestError unless the call says that what is dropped may be lost."""
    if not values.get("force"):
        raise InvalidRequestError(f"{what}; add force => true to do so")
