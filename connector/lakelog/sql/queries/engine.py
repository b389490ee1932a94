"""DuckDB as the engine of statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any  # Any: duckdb is an optional extra without types here

import duckdb
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError, LakelogError

_TOO_DEEP = "Max expression depth"
_INTERRUPTED = "Query interrupted"
_KIND = re.compile(r"^(?:[A-Z][A-Za-z-]+ )+Error: ")  # DuckDB's class of an error, before its text


TEMPORARY = "temporaries"  # the schema of temporary tables


def open_engine() -> Any:  # a DuckDBPyConnection
    """A DuckDB whose settings stay, which loads no extensions and keeps temporary tables in a schema of its own."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": "",
        },
    )
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL max_expression_depth = 2000")  # 200 queries in each other need 1,200
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    connection.execute(f"CREATE SCHEMA {TEMPORARY}")
    connection.execute("SET lock_configuration = true")
    return connection


@dataclass(kw_only=True)
class ReaderErrors:
    """The errors of readers, which Arrow hides behind its own."""

    _errors: list[LakelogError | KeyboardInterrupt] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep the error of a reader in the block for `own_errors`."""
        try:
            yield
        except (LakelogError, KeyboardInterrupt) as error:
            self._errors.append(error)
            raise

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Raise an error of a reader as itself: it comes out of the block as one of Arrow, which called the reader."""
        try:
            yield
        except (pa.ArrowException, OSError, RuntimeError) as error:
            if self._errors:
                raise self._errors[0].with_traceback(None) from None
            if KeyboardInterrupt.__name__ in str(error):  # raised by a signal while Arrow called the reader
                raise KeyboardInterrupt from error
            raise
        finally:
            self._errors.clear()  # a reader that Arrow calls is in their frames: Python could not collect it


@contextmanager
def told() -> Iterator[None]:
    """Raise InvalidRequestError for an error of DuckDB in the block, and an error of a read as itself.

    Raises KeyboardInterrupt if a signal has ended a query.
    """
    try:
        yield
    except duckdb.InterruptException as error:
        raise InvalidRequestError("the statement was interrupted") from error
    except duckdb.Error as error:
        cause = error.__cause__
        if isinstance(cause, LakelogError):
            raise cause from error
        raise InvalidRequestError(_sentence(error)) from error
    except pa.ArrowInvalid as error:  # such as arrays of arrays of arrays: Arrow takes 64 levels
        raise InvalidRequestError(f"the rows of the statement cannot be Arrow data: {error}") from error
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:  # DuckDB takes the signal for itself
            raise KeyboardInterrupt from error
        raise


def _sentence(error: Exception) -> str:
    if _TOO_DEEP in str(error):
        return "the statement is nested too deeply"
    lines: Iterator[str] = iter(str(error).splitlines())
    kept = [_KIND.sub("", next(lines, ""))]
    kept += [line for line in lines if line.startswith(("Candidate", "Did you"))]
    return " ".join(kept)
