"""The two sides of a MERGE, by which its actions find columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from lakelog.common.errors import InvalidRequestError

if TYPE_CHECKING:
    from lakelog.catalog import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSides:
    """The two sides of a merge: the names by which the statement knows them, and the columns of the source.

    `equal` are the pairs of expressions that ON says to be equal, each in both orders.
    """

    table: Table
    own: str
    other: str
    given: Sequence[str]
    equal: Sequence[tuple[exp.Expr, exp.Expr]]
    what: str

    def column(self, name: str) -> exp.Expr:
        """A column of the source, whatever its case."""
        return column_of(self.other, next(one for one in self.given if one.lower() == name.lower()))

    def in_order(self) -> list[str]:
        """The columns of the table, which those of the source fill in their order. Raises InvalidRequestError."""
        own = self.table.schema.field_names
        if len(own) != len(self.given):
            raise InvalidRequestError(
                f"{self.what}: BY POSITION fills {len(own)} columns, and the source has {len(self.given)}: "
                f"{', '.join(self.given)}"
            )
        return list(own)

    def is_equated(self, own: str, other: str) -> bool:
        """Whether ON says that a column of the table is one of the source."""
        return any(self.is_own(mine, own) and one.name.lower() == other.lower() for mine, one in self.equal)

    def is_own(self, given: exp.Expr, name: str) -> bool:
        """Whether an expression is a column of the table."""
        if not isinstance(given, exp.Column):
            return False
        return given.name.lower() == name.lower() and given.table.lower() == self.own.lower()

    def check_order(self, action: str, *, is_star: bool) -> None:
        """Raise InvalidRequestError if the columns of the source are not those of the table in their order.

        Columns that `*` does not find, or leaves out, have one meaning: `check_star` decides about them.
        """
        own = [field.name for field in self.table.schema.fields]
        given, wanted = ([name.lower() for name in names] for names in (self.given, own))
        if given == wanted or (is_star and sorted(given) != sorted(wanted)):
            return
        word = action.upper()
        taken = "* takes the columns of the source by their names in Spark, and in" if is_star else "alone takes the "
        taken += " their order in DuckDB" if is_star else "columns of the source in their order"
        raise InvalidRequestError(
            f"{self.what}: {word} {taken}, and these are {', '.join(self.given)}, while the table has "
            f"{', '.join(own)}; write {word} BY NAME, or {word} BY POSITION"
        )

    def check_star(self) -> None:
        """Raise InvalidRequestError if the source lacks a column of the table."""
        given = {one.lower() for one in self.given}
        missing = [field.name for field in self.table.schema.fields if field.name.lower() not in given]
        if missing:
            raise InvalidRequestError(
                f"{self.what}: * takes every column of the table from the source, which lacks {', '.join(missing)}; "
                "name the columns that are set, or select the missing ones"
            )


def equal_sides(condition: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """The pairs that a condition says to be equal, each in both orders."""
    match condition:
        case exp.Paren():
            return equal_sides(condition.this)
        case exp.And():
            return equal_sides(condition.left) + equal_sides(condition.right)
        case exp.EQ() | exp.NullSafeEQ():
            return [(condition.left, condition.right), (condition.right, condition.left)]
    return []


def column_of(table: str | exp.Identifier, name: str) -> exp.Column:
    """A column of a side."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True).copy())
