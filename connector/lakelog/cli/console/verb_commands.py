"""The commands of declared verbs, made from the declarations when the command line needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from inspect import Parameter as Argument
from inspect import Signature
from typing import TYPE_CHECKING, Annotated, Any  # Any: what typer gives a command

import typer

from lakelog.catalog.verbs.declared import DeclaredVerb, answer_of, declared_verbs, parsed
from lakelog.cli.console.arguments import HERE, AsJson, TableName, Warehouse, find_table
from lakelog.cli.console.door import ask, print_lines
from lakelog.cli.console.helps import no_command
from lakelog.cli.console.output import PROBLEM_CODE, progress
from lakelog.cli.console.rows import Form, form_of, print_answer
from lakelog.warehouse.verb import FORCE, Kind, Loses, Verb, value_at

if TYPE_CHECKING:
    from lakelog.warehouse.verb import Parameter

AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, with a line of names.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_UNITS = {timedelta(days=1): "d", timedelta(hours=1): "h", timedelta(minutes=1): "min", timedelta(seconds=1): "s"}
_SEVERAL = (Kind.PAIRS, Kind.RULES)
_TYPES = {Kind.FLAG: bool, Kind.NUMBER: int, Kind.PAIRS: list[str], Kind.RULES: list[str]}


def add_verbs(app: typer.Typer, place: str, words: Sequence[str] | None) -> None:
    """Add the commands of the declared verbs of a group such as `table tag` to its app.

    Where `words` begin with one of them, that one alone; where they do not, as for `--help`, of all the names alone.
    """
    verbs = {one.command[-1]: one for one in declared_verbs() if " ".join(one.command[:-1]) == place}
    asked = verbs if words is None else {name: verbs[name] for name in words[:1] if name in verbs}
    for name, one in (asked or verbs).items():
        make = command_of(one) if asked else no_command
        app.command(name, help=one.verb.text, short_help=one.verb.summary, rich_help_panel=one.panel)(make)


def command_of(declared: DeclaredVerb) -> Callable[..., None]:
    """The function of a command, as typer takes it: with the signature of the verb."""
    verb = declared.verb
    known = {name: one for name, one in verb.parameters().items() if name != FORCE}

    def run(**given: Any) -> None:
        form = form_of(as_csv=given["as_csv"], as_json=given["as_json"])
        table = find_table(given["of_table"], given["warehouse"])
        values = {
            name: parsed(one, given[name], zone="UTC") for name, one in known.items() if given[name] not in (None, [])
        }
        lost = None if given.get("yes") else verb.lost(declared.owner(table), **values)
        if lost is not None:
            ask(f"{lost}. Do it?")
        with progress(f"{' '.join(declared.command)}: {table.name}"):
            found = declared.call(table, values)
            found = list(found) if isinstance(found, Iterator) else found
        _print(verb, found, form)
        if verb.is_problem is not None and verb.is_problem(found, values):
            raise typer.Exit(PROBLEM_CODE)

    arguments = [Argument("of_table", Argument.KEYWORD_ONLY, annotation=TableName)]
    arguments += map(_argument, sorted(known.values(), key=lambda one: not one.is_required))
    more = {"yes": Yes} if verb.loses is not Loses.NOTHING else {}
    for name, annotation in {**more, "as_csv": AsCsv, "as_json": AsJson}.items():
        arguments.append(Argument(name, Argument.KEYWORD_ONLY, default=False, annotation=annotation))
    arguments.append(Argument("warehouse", Argument.KEYWORD_ONLY, default=HERE, annotation=Warehouse))
    run.__signature__ = Signature(arguments)  # type: ignore[attr-defined]  # what `inspect` and typer read
    return run


def _argument(parameter: Parameter) -> Argument:
    """A required string is an argument, all else an option."""
    name = parameter.name.rstrip("_")
    kind: Any = _TYPES.get(parameter.kind, str)
    made: Any
    if parameter.is_required and parameter.kind is Kind.TEXT:
        made = typer.Argument(metavar=name.upper(), help=parameter.help)
    else:
        made = typer.Option(*_words(parameter, name.replace("_", "-")), help=parameter.help)
    if parameter.is_required:
        return Argument(parameter.name, Argument.KEYWORD_ONLY, annotation=Annotated[kind, made])
    default = parameter.default
    if isinstance(default, timedelta):
        default = next(f"{default // unit} {name}" for unit, name in _UNITS.items() if not default % unit)
    if parameter.kind in _SEVERAL:
        default = None
    annotation: Any = kind if parameter.kind is Kind.FLAG else kind | None
    return Argument(parameter.name, Argument.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, made])


def _words(parameter: Parameter, name: str) -> tuple[str, ...]:
    if parameter.kind is Kind.FLAG and parameter.default:
        return (f"--{name}/--no-{name}",)
    if parameter.kind is Kind.PAIRS:  # one of several
        return (f"--{name.removesuffix('s')}", f"-{name[0]}")
    return (f"--{name}",)


def _print(verb: Verb, found: Any, form: Form) -> None:
    if not verb.answer:
        return
    if found is None and form is Form.GRID:
        print_lines([verb.nothing])
        return
    parts = {name: value_at(found, rows) for name, rows in verb.parts.items()}
    print_answer(answer_of(verb, found), parts, form, is_list=isinstance(found, list | tuple), brief=verb.brief)  # type: ignore[arg-type]  # parts are rows
