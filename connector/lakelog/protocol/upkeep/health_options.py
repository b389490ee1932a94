"""The check of a table's options for `lakelog doctor`: each has a value that is understood."""

from __future__ import annotations

from collections.abc import Iterator

from lakelog.common.errors import OptionError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.options import FILESTORE_OPTIONS, LEFT_OUT
from lakelog.logstore.options import LOGSTORE_OPTIONS
from lakelog.protocol.upkeep.health import problem
from lakelog.protocol.upkeep.health_kafka import Result


def option_results(table: FileStoreTable) -> Iterator[Result]:
    """The options whose values lakelog does not understand; nothing about the others."""
    for option in (*FILESTORE_OPTIONS, *LOGSTORE_OPTIONS):
        try:
            option.of(table.schema.options)
        except OptionError as error:
            effect = LEFT_OUT.get(option.key, "what needs the option is refused")
            yield problem(
                f"{error}: {effect}",
                f"`lakelog table alter {table.path} --set {option.key}=VALUE`, or --unset {option.key}",
            )
