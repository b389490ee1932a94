"""JSON texts that were changed: values of another type or range, members that are missing, half of a file."""

from __future__ import annotations

import json
import random
from typing import Any  # Any: JSON of any shape

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1 << 31,
    (1 << 63) - 1,
    1 << 63,
    -(1 << 63) - 1,
    10**400,
    1.5,
    "",
    "x",
    "\x00",
    "../../x",
    "1e999",
    "9" * 5_000,
    [],
    {},
    [[]],
    {"": {}},
    [1] * 2_000,
)
# Texts that no JSON writer of Python gives.
TEXTS = (
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "9" * 5_000,
    '"\\ud800"',
    "[" * 300 + "]" * 300,
    '{"a":' * 300 + "1" + "}" * 300,
)
_MARK = "\u2620"


def attacked(text: str, chance: random.Random) -> bytes:
    """The text with one thing changed."""
    if chance.random() < 0.15:
        data = bytearray(text.encode())
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data[: chance.randint(1, len(data))] if chance.random() < 0.3 else data)
    value = json.loads(text)
    places = list(_places(value))
    holder, key = chance.choice(places)
    if chance.random() < 0.1:
        del holder[key]
        return json.dumps(value).encode()
    if chance.random() < 0.3:
        holder[key] = _MARK
        return json.dumps(value).replace(json.dumps(_MARK), chance.choice(TEXTS)).encode()
    holder[key] = chance.choice(VALUES)
    return json.dumps(value).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every list or object inside of a value, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += _places(inner)
    return found
