"""`lakelog options`: every declared option, for a terminal or as the page `docs/options.md`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Annotated

import typer

from lakelog.cli.console.arguments import AsJson
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import print_grid, to_json
from lakelog.common.options import Option, parse_duration_millis, parse_size_bytes

_SIZES = (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1))
_DURATIONS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_PAGE_HEAD = """# Options

Made by `lakelog options --markdown` from the declarations in the code; a test compares the two.

Options of tables are given when a table is created; options of reads and writes with the read or write. Keys are exact:
an unknown one is an error that names the nearest one. `fields.*` is an open group;
of `log.kafka.*` a table takes what the guide's page on Kafka names.
"""
_REFUSED_HEAD = """## Options of Paimon that are refused

Tables of other engines may have any option of Paimon. lakelog honours those above, refuses these by name, and ignores
the others, which change nothing in what it reads and writes.
"""


def option_groups() -> dict[str, Sequence[Option[object]]]:
    """Title -> the options of one part; those of Spark only if PySpark, an extra of lakelog, is installed."""
    from lakelog.filestore.io import EXTERNAL_PATHS, S3_OPTIONS
    from lakelog.filestore.options import FILESTORE_OPTIONS
    from lakelog.logstore.options import LOGSTORE_OPTIONS
    from lakelog.warehouse.lineage_options import LINEAGE_OPTIONS

    groups: dict[str, Sequence[Option[object]]] = {
        "File store": FILESTORE_OPTIONS,
        "Log store": LOGSTORE_OPTIONS,
        "Access to files (given with a catalog or a path, never stored)": (EXTERNAL_PATHS, *S3_OPTIONS),
        "Lineage (given with a catalog, kept in the warehouse by a feed)": LINEAGE_OPTIONS,
    }
    with contextlib.suppress(ModuleNotFoundError):
        from lakelog.spark.options import SPARK_OPTIONS  # needs the extra

        groups["Spark reads and writes"] = SPARK_OPTIONS
    return groups


def show_options(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/options.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every option with its type, default and meaning."""
    if markdown:
        print_lines(options_page().splitlines())
        return
    for title, options in option_groups().items():
        rows = [(option.key, option.kind, default_text(option), option.doc) for option in _sorted(options)]
        if as_json:
            names = ("key", "type", "default", "meaning")
            print_lines(to_json({"group": title, **dict(zip(names, row, strict=True))}) for row in rows)
            continue
        print_lines([title])
        plain = [(*row[:-1], row[-1].replace("`", "")) for row in rows]
        print_grid(("key", "type", "default", "meaning"), plain, whole=("key",))
        print_lines([""])


def options_page() -> str:
    """The text of docs/options.md."""
    return "\n".join(_page_lines())


def _page_lines() -> Iterator[str]:
    yield _PAGE_HEAD
    for title, options in option_groups().items():
        yield f"## {title}\n"
        yield "| key | type | default | meaning |"
        yield "|---|---|---|---|"
        for option in _sorted(options):
            default = default_text(option)
            yield f"| `{option.key}` | {option.kind} | {f'`{default}`' if default else ''} | {_cell(option.doc)} |"
        yield ""
    yield from _refused_lines()


def _refused_lines() -> Iterator[str]:
    from lakelog.filestore.options import OptionUse, known_refusals

    yield _REFUSED_HEAD
    yield "| key | refused are | unless it is | the option |"
    yield "|---|---|---|---|"
    for key, refusal in sorted(known_refusals().items()):
        uses = ", ".join(use for use in OptionUse if use in refusal.uses)
        unless = ", ".join(f"`{value}`" for value in sorted(refusal.harmless))
        yield f"| `{key}` | {uses} | {unless} | {_cell(refusal.why)} |"
    yield ""


def default_text(option: Option[object]) -> str:
    """The default as a user would write it; empty for none."""
    default = option.default
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, Enum):
        return str(default.value)
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, int) and option.parse is parse_size_bytes:
        return _with_unit(default, _SIZES)
    if isinstance(default, int) and option.parse is parse_duration_millis:
        return _with_unit(default, _DURATIONS)
    return str(default)


def _with_unit(amount: int, units: Iterable[tuple[str, int]]) -> str:
    unit, size = next((unit, size) for unit, size in units if amount % size == 0)
    return f"{amount // size} {unit}"


def _sorted(options: Iterable[Option[object]]) -> list[Option[object]]:
    return sorted(options, key=lambda option: option.key)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
