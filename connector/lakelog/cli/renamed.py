"""Commands and options that have another name now: their old names end in an error that names the new form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.cli.console.door import write_error

WRONG_CODE = 2  # as of a wrong command
_COMMANDS: Mapping[tuple[str, ...], str] = {
    ("table", "branch", "merge"): "`lakelog table merge` keeps the changes of table and branch; `lakelog table branch "
    "replace-newer`, which this was, drops what the table has committed since the branch began",
    ("table", "expire"): "`lakelog table expire-snapshots`",
    ("table", "log"): "`lakelog table history`",
    ("table", "consumers"): "`lakelog table consumer list`",
    ("table", "reset-consumer"): "`lakelog table consumer reset TABLE CONSUMER_ID --next-snapshot NUMBER`",
    ("table", "delete-consumer"): "`lakelog table consumer delete`",
    ("log", "abandon"): "`lakelog log abandon-writer`",
    ("lineage", "up"): "`lakelog lineage upstream`",
    ("lineage", "down"): "`lakelog lineage downstream`",
    ("lineage", "import"): "the example `python -m demo.openlineage` of a checkout takes in events of other producers",
    ("log", "transactions"): "`lakelog log open-transactions`, and `lakelog log end-transactions`, which aborts them",
}
_OPTIONS: Mapping[tuple[tuple[str, ...], str], str] = {
    (("table", "remove-orphan-files"), "--delete"): "--no-dry-run",
    (("table", "describe"), "--partitions"): "`lakelog table partitions`",
    (("table", "consumer", "reset"), "--next"): "--next-snapshot",
    **{(("lineage", name), "--snapshot"): "--snapshot-id" for name in ("show", "upstream", "downstream", "tainted")},
    (("log", "verify"), "--from"): "--from-snapshot",
    (("log", "verify"), "--to"): "--to-snapshot",
}


def name_new_form(given: Sequence[str]) -> None:
    """End the program, with the new form of a command, for a command line that begins with an old one."""
    for words, new in _COMMANDS.items():
        if tuple(given[: len(words)]) == words:
            write_error(f"lakelog: `lakelog {' '.join(words)}` is not a command any more: {new}")
            raise SystemExit(WRONG_CODE)


def hint_of_option(given: Sequence[str]) -> str | None:
    """The new form of an old option in a command line; None if it has none."""
    for (words, option), new in _OPTIONS.items():
        if tuple(given[: len(words)]) == words and any(one.partition("=")[0] == option for one in given):
            return new
    return None
