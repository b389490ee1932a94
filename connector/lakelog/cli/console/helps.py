"""The texts of `--help`: paragraphs without line breaks of their own, which are wrapped to the terminal's width.

Typer keeps the line breaks of a docstring after its first paragraph, so lines would be broken twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import typer


def unwrap_helps(app: typer.Typer) -> None:
    """Give each command of an app and of its groups its help in unwrapped paragraphs."""
    for command in app.registered_commands:
        command.help = command.help or _unwrapped(command.callback)
    if app.registered_callback is not None:
        app.registered_callback.help = _unwrapped(app.registered_callback.callback)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        unwrap_helps(group.typer_instance)


def _unwrapped(callback: Callable[..., object] | None) -> str:
    paragraphs = (inspect.getdoc(callback) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def only_named() -> typer.Typer:
    """A group of which the command line needs the name alone."""
    app = typer.Typer()
    app.command("-")(no_command)  # typer refuses a group without a command
    return app


def no_command() -> None:
    """A command of which the command line needs the name alone."""
