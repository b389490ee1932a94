"""What can be changed of a table's schema, as values. Source: Paimon, `SchemaChange`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataType

Column = str | Sequence[str]


class Place(StrEnum):
    """Where a column goes."""

    FIRST = "first"
    LAST = "last"
    AFTER = "after"
    BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Position:
    """A place among the columns, or among the members of a ROW; `beside` names the neighbour of AFTER and BEFORE."""

    place: Place
    beside: str | None = None

    def __post_init__(self) -> None:
        needs = self.place in (Place.AFTER, Place.BEFORE)
        if needs is not bool(self.beside):
            raise InvalidRequestError(f"position {self.place.value!r} takes {'a' if needs else 'no'} neighbour")


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new nullable column: null in all rows that are there.

    `column` is its name, or the path to a new member of a nested type. `type` is a type, an Arrow type, or text such as
    `DECIMAL(10, 2)`. At the end, unless `position` says otherwise.
    """

    column: Column
    type: DataType | pa.DataType | str
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column or member that is there no more. Old files keep its values; a new one of its name starts with null."""

    column: Column


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name for a column or member; keys and options that name it follow."""

    column: Column
    name: str


@dataclass(frozen=True, slots=True)
class UpdateColumnPosition:
    """Another place for a column or member among its siblings."""

    column: Column
    position: Position


@dataclass(frozen=True, slots=True)
class UpdateColumnType:
    """A type that holds all values of the present one, such as BIGINT for INT. Nullability stays."""

    column: Column
    type: DataType | pa.DataType | str


@dataclass(frozen=True, slots=True)
class SetNullability:
    """Whether a column takes nulls; a column that takes them may hold some, so only `nullable=True` is done."""

    column: Column
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetComment:
    """What a column or member holds, in words; None takes the words away."""

    column: Column
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetOption:
    """A value for an option of the table."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    """An option back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """What the table holds, in words; None takes the words away."""

    comment: str | None


ColumnChange = (
    AddColumn | DropColumn | RenameColumn | UpdateColumnPosition | UpdateColumnType | SetNullability | SetComment
)
SchemaChange = ColumnChange | SetOption | RemoveOption | SetTableComment
