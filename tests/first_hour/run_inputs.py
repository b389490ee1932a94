"""Runs wrong inputs where lakelog is installed, and prints what the user sees of each: [error class, message]."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from typing import Any  # Any: the names that users have


def answer(typed: str, names: dict[str, Any]) -> tuple[str, str]:
    """What Python shows: the class of the error, and its message."""
    try:
        exec(typed, names)
    except Exception as error:  # noqa: BLE001  # whatever the user sees is the answer
        return type(error).__name__, str(error)
    return "no error", ""


def command_answer(arguments: str) -> tuple[str, str]:
    """What the command line shows: the exit code, and what is on standard error."""
    from lakelog.cli.main import main  # noqa: PLC0415  # Python's answers load no command line

    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
        try:
            main(shlex.split(arguments))
        except SystemExit as ended:
            return str(ended.code or 0), shown.getvalue()
    return "0", shown.getvalue()


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    names: dict[str, Any] = {}
    exec(asked["setup"], names)
    found = [answer(typed, dict(names)) for typed in asked["python"]]
    found += [command_answer(arguments) for arguments in asked["commands"]]
    sys.stdout.write("\n" + json.dumps(found) + "\n")
