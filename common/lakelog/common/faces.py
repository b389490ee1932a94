"""The face of a package: the names in its stub, `__init__.pyi`, each imported at its first use.

Other parts import these names only from the package, so that its modules can be moved. A type checker reads the stub.
The package keeps no name: a name that a module has since replaced gives the new object. Source: PEP 484 (stubs), PEP
562.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

_IMPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def face(package: str, file: str) -> Callable[[str], object]:
    """The `__getattr__` of a package, by its name and the path of its `__init__.py`."""

    @cache
    def homes() -> dict[str, str]:
        return names_of_stub(Path(file).with_suffix(".pyi"))

    def imported(name: str) -> object:
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return imported


def names_in(file: str) -> tuple[Callable[[], list[str]], list[str]]:
    """The `__dir__` and the `__all__` of a package that users import from, by the path of its `__init__.py`."""
    names = sorted(names_of_stub(Path(file).with_suffix(".pyi")))
    return lambda: names, names


def names_of_stub(path: Path) -> dict[str, str]:
    """The names that a stub imports, with the modules that it imports them from."""
    return {name: home for home, name in _IMPORT.findall(path.read_text("utf-8"))}
