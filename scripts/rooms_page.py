"""The page docs/rooms.md: the parts of the code, and their rooms in the order in which they may import each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_architecture import PARTS, ROOMS, folder_of_package

HEAD = """# Rooms

Made by `scripts/rooms` from `ROOMS` in `tests/test_architecture.py`, which holds every import against it, and from the
first line of each package. Each part imports those to the right of it:

    {arrows}

Each room may import the rooms above it in its table. The rows of inner rooms follow the row of their room.
"""


def page() -> str:
    """The text of docs/rooms.md."""
    return "\n".join([HEAD.format(arrows=arrows()), *(line for part in PARTS for line in _part(part))])


def arrows() -> str:
    """The parts from the highest to the lowest; the two stores do not know each other."""
    return " -> ".join(reversed(PARTS)).replace("logstore -> filestore", "filestore, logstore")


def _part(part: str) -> Iterator[str]:
    yield f"## `lakelog.{part}`\n\n{_first_line(part)}\n"
    if part in ROOMS:
        yield "| room | what is in it |\n|---|---|"
        yield from (f"| `{room}` | {_first_line(f'{part}.{room}')} |" for room in _rooms(part))
        yield ""


def _rooms(package: str) -> Iterator[str]:
    for room in ROOMS[package]:
        yield room
        inner = f"{package}.{room}"
        yield from (f"{room}.{name}" for name in (_rooms(inner) if inner in ROOMS else ()))


def _first_line(package: str) -> str:
    tree = ast.parse((folder_of_package(package) / "__init__.py").read_text("utf-8"))
    return (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    print(page().rstrip("\n"))
