"""Runs the Python of pages, one after another, in one process: most of a page's time goes into the start of a Spark.

It is run by the Python of users, `python -c` with this text, in the folder of the pages, which is emptied before each.
One line of JSON in is a page, {"code", "files": {name: text}}; one line out is what went wrong, or null.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import traceback
from pathlib import Path


def main() -> None:
    """Run what comes."""
    answers = sys.stdout
    for line in sys.stdin:
        page = json.loads(line)
        empty(Path.cwd())
        for name, text in page["files"].items():
            path = Path(name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        answers.write(json.dumps(what_went_wrong(page["code"])) + "\n")
        answers.flush()


def empty(folder: Path) -> None:
    """Leave a folder as a newcomer finds it."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def what_went_wrong(code: str) -> str | None:
    """Run a page in names and a session of its own; the trace of its error with what it printed, None without one."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
    except BaseException:  # noqa: BLE001 - a page may call sys.exit
        return printed.getvalue() + traceback.format_exc()
    finally:
        if "pyspark.sql" in sys.modules:
            begin_session()
    return None


def begin_session() -> None:
    """End the streams of a page, and let the next page's `getOrCreate` give it a session without settings and views."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - pages without Spark start none

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None:
        return
    for query in session.streams.active:
        query.stop()
    fresh = session.newSession()
    assert session._jvm is not None
    SparkSession._instantiatedSession = SparkSession._activeSession = fresh
    sessions = SparkSession._get_j_spark_session_class(session._jvm)
    sessions.setDefaultSession(fresh._jsparkSession)
    sessions.setActiveSession(fresh._jsparkSession)


if __name__ == "__main__":
    main()
