"""The page docs/api.md: the names that users import, with their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Self, Unpack, is_typeddict  # Any: a class or an alias of types

from lakelog.catalog import Table
from lakelog.catalog.verbs.declared import table_groups

FACES = (
    "lakelog.catalog",
    "lakelog.spark",
    "lakelog.sql",
    "lakelog.lineage",
    "lakelog.lineage.openlineage",
    "lakelog.filestore",
)
HANDLES = {"FileStoreTable"}
SAME_AS_TABLE = {("FileStoreTable", name) for name in dir(Table)}
INTERNAL = {"TableStore", "VerbGroup", "ListedGroup"}  # bases: what the file store's own modules use,
# What the parts below use.
INTERNAL_MEMBERS = {"Catalog.store", "Catalog.stores", "FileStoreTable.in_catalog"}
DOC_LENGTH_MAX = 120
LINE_LENGTH_MAX = 100
HEAD = """# API

Made from the code by `scripts/api`. Users import from `lakelog.catalog`, `lakelog.spark`, `lakelog.sql`,
`lakelog.lineage` and `lakelog.filestore` alone.
The [guide](guide.md) has examples, [options](options.md) the options of tables, reads and writes.
"""
RESULTS = """## Values that calls give back

Not imported, but given by calls, with the attributes below.
"""
TYPES = """## Types in signatures
"""
_FIRST = ("Catalog", "Table", "open_table", "read", "write_stream", "LakelogSink", "FileStoreTable")
_NAME = re.compile(r"\b[A-Z]\w+\b")
_SELF = re.compile(r"\bSelf\b")  # in the signature of a method that gives back a handle of the same class
_ANY_TABLE = re.compile(r"\bAnyTable\b")  # what a caller gives and gets back
_UNPACKED = re.compile(r"^Unpack\[(\w+)\]$")


def page() -> str:
    """The text of docs/api.md."""
    modules = [importlib.import_module(name) for name in FACES]
    faced = {name: getattr(module, name) for module in modules for name in module.__all__}
    groups = table_groups()
    named = dict(sorted(_named_by([*faced.values(), *groups.values()]).items()))
    bases = {*groups.values()} | {base for value in faced.values() if inspect.isclass(value) for base in value.__mro__}
    more = {name: value for name, value in named.items() if name not in faced and value not in bases}
    results = {name: value for name, value in more.items() if inspect.isclass(value) and not is_typeddict(value)}
    aliases = {name: value for name, value in more.items() if name not in results and name != "AnyTable"}
    lines = [HEAD]
    for module in modules:
        lines += _face(module)
    lines += [RESULTS, *(line for name, value in results.items() for line in _class(name, value))]
    lines += [TYPES, *(line for name, value in aliases.items() for line in _alias(name, value))]
    return "\n".join(lines).rstrip("\n") + "\n"


def _face(module: ModuleType) -> Iterator[str]:
    yield f"## {module.__name__}\n"
    yield f"{inspect.getdoc(module)}\n"
    members = {name: getattr(module, name) for name in sorted(module.__all__, key=_FIRST.__contains__, reverse=True)}
    errors = {name: value for name, value in members.items() if inspect.isclass(value) and _is_error(value)}
    for name, value in members.items():
        if name not in errors:
            yield from _class(name, value) if inspect.isclass(value) else _other(name, value)
        if value is Table:
            for property_name, group in table_groups().items():
                yield from _group(property_name, group)
    if errors:
        yield "### Errors\n"
        yield "| error | is a | meaning |"
        yield "|---|---|---|"
        for name, error in errors.items():
            yield f"| `{name}` | `{error.__mro__[1].__name__}` | {_first_paragraph(error)} |"
        yield ""


def _group(property_name: str, value: type) -> Iterator[str]:
    yield f"### Table.{property_name}\n"
    yield f"{inspect.getdoc(value)}\n"
    for member, function in members_of(value):
        yield f"#### Table.{property_name}.{member}\n"
        if isinstance(function, property):
            yield _property(function)
        elif inspect.isfunction(function):
            yield from _callable(member, function)


def _property(member: property | cached_property[object]) -> str:
    getter = member.fget if isinstance(member, property) else member.func
    returned = inspect.signature(getter).return_annotation if getter else ""
    return textwrap.fill(f"`{returned}`. {inspect.getdoc(member)}", DOC_LENGTH_MAX) + "\n"


def _is_error(value: type) -> bool:
    return issubclass(value, Exception)


def _first_paragraph(value: object) -> str:
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _other(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"### {name}\n"
        yield from _callable(name, value)
    else:
        yield from _alias(name, value)


def _alias(name: str, value: object) -> Iterator[str]:
    yield f"### {name}\n"
    if is_typeddict(value):
        yield f"{inspect.getdoc(value)}\n"
        return
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(value))
    yield f"```text\n{_wrapped(f'{name} = ', text.split(' | '))}\n```\n"


def _wrapped(start: str, parts: list[str]) -> str:
    line = start + " | ".join(parts)
    return line if len(line) <= LINE_LENGTH_MAX else start.rstrip() + "".join(f"\n    | {part}" for part in parts)


def _class(name: str, value: type) -> Iterator[str]:
    yield f"### {name}\n"
    if issubclass(value, Enum):
        yield f"{inspect.getdoc(value)} Values: {', '.join(f'`{member.name}`' for member in value)}.\n"
        return
    yield f"{inspect.getdoc(value)}\n"
    is_value = name not in HANDLES and _is_given(value)
    if dataclasses.is_dataclass(value) and is_value:
        shown = [field for field in dataclasses.fields(value) if field.repr and not field.name.startswith("_")]
        yield "```text\n" + "\n".join(f"{field.name}: {field.type}" for field in shown) + "\n```\n"
    elif _is_made_by_users(value):
        yield from _callable(name, value.__init__, owner=value)
    for member, function in members_of(value):
        if (is_value and inspect.isfunction(function)) or (name, member) in SAME_AS_TABLE:
            continue
        if f"{name}.{member}" in INTERNAL_MEMBERS or (value is Table and member in table_groups()):
            continue
        if isinstance(function, property | cached_property):
            yield f"#### {name}.{member}\n"
            yield _property(function)
        else:
            yield f"#### {name}.{member}\n"
            yield from _callable(member, function, given_back=name)


def _is_given(value: type) -> bool:
    """Whether a class is one of values that calls give back: users do not make them, and read attributes by name."""
    return _has_public_fields(value) and all(field.kw_only for field in dataclasses.fields(value))


def _has_public_fields(value: type) -> bool:
    return dataclasses.is_dataclass(value) and any(one.name[0] != "_" for one in dataclasses.fields(value))


def _is_made_by_users(value: type) -> bool:
    """Whether its constructor is for users: neither a protocol, nor a value whose fields are all its own."""
    is_private = dataclasses.is_dataclass(value) and bool(dataclasses.fields(value)) and not _has_public_fields(value)
    return not getattr(value, "_is_protocol", False) and not is_private


def members_of(value: type) -> Iterator[tuple[str, Callable[..., object] | property | cached_property[object]]]:
    """The public properties of a class, then its methods, each as they stand in the code, those of its bases last."""
    found = list(_public(value))
    yield from sorted(found, key=lambda member: inspect.isfunction(member[1]))


def _public(value: type) -> Iterator[tuple[str, Callable[..., object] | property | cached_property[object]]]:
    seen: set[str] = set()
    for owner in value.__mro__:
        if not owner.__module__.startswith("lakelog"):
            continue
        for name, member in vars(owner).items():
            public = not name.startswith("_") or name == "__call__"
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if (
                public
                and name not in seen
                and owner.__name__ not in INTERNAL
                and isinstance(plain, property | cached_property) | inspect.isfunction(plain)
            ):
                seen.add(name)
                yield name, plain


def _callable(
    name: str, function: Callable[..., object], owner: type | None = None, given_back: str = "Self"
) -> Iterator[str]:
    line = _ANY_TABLE.sub("Table", _SELF.sub(given_back, signature(name, function)))
    yield f"```text\n{line}\n```\n"
    doc = inspect.getdoc(function)
    if doc and not (owner is not None and dataclasses.is_dataclass(owner)):
        text, example = split_example(doc)
        yield f"{text}\n"
        if example:
            yield f"```python\n{example}\n```\n"


def split_example(doc: str) -> tuple[str, str]:
    """The text of a docstring, and the example at its end: the lines behind `>>>` and `...`, empty without one."""
    lines = doc.split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith(">>> ")), len(lines))
    return "\n".join(lines[:first]).rstrip(), "\n".join(line[4:] for line in lines[first:])


def signature(name: str, function: Callable[..., object]) -> str:
    """A call as users write it: without `self`, the keywords of an `Unpack[...]` one by one."""
    found = inspect.signature(function)
    parts: list[str] = []
    is_keyword_only = False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        unpacked = _UNPACKED.match(str(parameter.annotation))
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD) and not is_keyword_only:
            is_keyword_only = True
            parts.append("*")
        if unpacked:
            keywords = _keywords(_resolved(function, unpacked.group(1)))
            parts += [f"{keyword}: {kind} = None" for keyword, kind in keywords.items()]
            continue
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    returned = "" if found.return_annotation in ("None", found.empty) and name[0].isupper() else found.return_annotation
    arrow = f" -> {returned}" if returned else ""
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= LINE_LENGTH_MAX:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){arrow}"


def _default(value: object) -> str:
    return "..." if callable(value) else repr(value)


def _keywords(keywords: type) -> Mapping[str, str]:
    return {name: getattr(kind, "__forward_arg__", str(kind)) for name, kind in keywords.__annotations__.items()}


def _named_by(values: Iterable[object]) -> Mapping[str, object]:
    """What the signatures of these name of lakelog's own: classes that calls give back, and aliases of types."""
    found: dict[str, object] = {}
    for value in values:
        members = [member for _, member in members_of(value)] if inspect.isclass(value) else []
        for member in [value.__init__ if inspect.isclass(value) else value, *members]:
            function = member.fget if isinstance(member, property) else getattr(member, "func", member)
            if not inspect.isfunction(function):
                continue
            found |= _named_in(function, ("return",))
    for name, value in list(found.items()):
        if dataclasses.is_dataclass(value) and inspect.isclass(value) and name not in HANDLES:
            found |= _named_in(value.__init__, [field.name for field in dataclasses.fields(value)])
    return found


def _named_in(function: Callable[..., object], given_back: Collection[str]) -> Mapping[str, object]:
    """The aliases of types in a signature, and the classes in those annotations that are `given_back`."""
    found: dict[str, object] = {}
    for argument, annotation in function.__annotations__.items():
        for name in _NAME.findall(str(annotation)):
            known = _resolved(function, name)
            is_class = inspect.isclass(known) and not is_typeddict(known)
            if known is not None and _is_ours(known) and (argument in given_back or not is_class):
                found[name] = known
    return found


def _resolved(function: Callable[..., object], name: str) -> Any:
    """What a name in a signature stands for, also where it is imported for the type checker alone; None for neither."""
    function = inspect.unwrap(function)
    if name in function.__globals__:
        return function.__globals__[name]
    source = Path(function.__globals__["__file__"]).read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return getattr(importlib.import_module(node.module or ""), name)
    return None


def _is_ours(value: object) -> bool:
    if isinstance(value, type):
        return value.__module__.startswith("lakelog")
    return value not in (Self, Unpack) and ("typing" in type(value).__module__ or type(value).__name__ == "UnionType")


if __name__ == "__main__":
    sys.stdout.write(page())
