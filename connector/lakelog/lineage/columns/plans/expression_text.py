"""The SQL of expressions, for descriptions: without the ids of Spark, so the same query has the same text each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any  # Any: parsed JSON

_OPERATORS = {
    "Add": "+",
    "And": "AND",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "Divide": "/",
    "EqualNullSafe": "<=>",
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "IntegralDivide": "div",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "Like": "LIKE",
    "Multiply": "*",
    "Or": "OR",
    "Remainder": "%",
    "Subtract": "-",
}
_FORMS = {
    "Ascending": "{0}",
    "GetArrayItem": "{0}[{1}]",
    "GetMapValue": "{0}[{1}]",
    "IsNotNull": "({0} IS NOT NULL)",
    "IsNull": "({0} IS NULL)",
    "LambdaFunction": "({1} -> {0})",
    "Not": "(NOT {0})",
    "UnaryMinus": "(- {0})",
}
_NAMES = {
    "Average": "avg",
    "CreateArray": "array",
    "CreateMap": "map",
    "Murmur3Hash": "hash",
    "StringTrim": "trim",
    "XxHash64": "xxhash64",
}
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def text_of(name: str, members: dict[str, Any], children: Sequence[str]) -> str:
    """The SQL of a node, whose children have these texts."""
    if name == "Literal":
        return _literal(members)
    if name in _OPERATORS and len(children) == 2:
        return f"({children[0]} {_OPERATORS[name]} {children[1]})"
    if name in _FORMS and len(children) >= _FORMS[name].count("{"):
        return _FORMS[name].format(*children)
    if name in {"Cast", "UpCast"}:
        return f"CAST({children[0]} AS {_type(members.get('dataType'))})"
    if name == "CaseWhen":
        return _case(children)
    if name == "In":
        return f"({children[0]} IN ({', '.join(children[1:])}))"
    if name == "InSubquery":
        return f"({', '.join(children[:-1])} IN {children[-1]})"
    return f"{_function(name, members)}({', '.join(filter(None, children))})"


def _function(name: str, members: dict[str, Any]) -> str:
    """The name of a function; for one of a user the name that the user gave it."""
    given = members.get("name") or members.get("udfName") or members.get("functionName")
    if isinstance(given, str) and given:
        return given
    return _NAMES.get(name) or _WORDS.sub("_", name).lower()


def _literal(members: dict[str, Any]) -> str:
    value = members.get("value")
    if value is None:
        return "NULL"
    if members.get("dataType") not in ("string", "date", "timestamp"):
        return str(value)
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"


def _type(kind: object) -> str:
    if isinstance(kind, dict):
        return str(kind.get("type", "struct")).upper()
    return str(kind).upper()


def _case(children: Sequence[str]) -> str:
    pairs = len(children) // 2 * 2
    parts = [f"WHEN {children[at]} THEN {children[at + 1]}" for at in range(0, pairs, 2)]
    return " ".join(["CASE", *parts, *(f"ELSE {text}" for text in children[pairs:]), "END"])
