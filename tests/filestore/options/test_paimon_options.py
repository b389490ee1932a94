"""Options are named and spelled as Paimon 2.0 has them: `paimon/PaimonOptions.java` has listed what its classes say."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from lakelog.common.errors import OptionError
from lakelog.common.options import Option, parse_duration_millis, parse_size_bytes
from lakelog.filestore.options import FILESTORE_OPTIONS

LISTS = Path(__file__).parent / "paimon"
DECLARED = {option.key: option for option in FILESTORE_OPTIONS}
OLDER_PROPOSALS = {"write-mode", "tag.create-time", "tag.create-interval"}
KINDS = {
    "Boolean": "true or false",
    "MemorySize": "a size such as 64 mb or 10 gb",
    "Duration": "a duration such as 10 min or 7 d",
}
OTHER_DEFAULTS = {
    "bucket",  # lakelog writes it into each table that it makes
    "commit.max-retries",  # lakelog tries for a time, and not a number of times
    "commit.timeout",
    "write-buffer-spill.max-disk-size",  # without a limit, which Paimon writes as the largest number
}
WITHOUT_MEANING_HERE = {"compacted-full", "from-creation-timestamp", "from-file-creation-time", "incremental"}


class PaimonOption(NamedTuple):
    """A line of `paimon_options.tsv`."""

    key: str
    owner: str
    kind: str
    default: str
    values: str
    older_keys: str


PAIMON = {
    option.key: option
    for option in (
        PaimonOption(*line.split("\t")) for line in (LISTS / "paimon_options.tsv").read_text("utf-8").splitlines()
    )
}
SHARED = sorted(DECLARED.keys() & PAIMON.keys())


def parsed(kind: str) -> list[tuple[str, str]]:
    """Texts, and what Paimon makes of each as a value of the type: `-` where it refuses the text."""
    lines = (line.split("\t") for line in (LISTS / "paimon_values.tsv").read_text("utf-8").splitlines())
    return [(text, value) for name, text, value in lines if name == kind]


def ours(option: Option[object], text: str) -> str:
    try:
        return str(option.of({option.key: text}))
    except OptionError:
        return "-"


@pytest.mark.parametrize(("kind", "parse"), [("MemorySize", parse_size_bytes), ("Duration", parse_duration_millis)])
def test_every_unit_is_read_as_paimon_reads_it(kind: str, parse: object) -> None:
    option = Option(key="k", parse=parse, default=None, doc="")  # type: ignore[arg-type]
    texts = parsed(kind)
    assert len(texts) > 200
    assert [(text, value) for text, value in texts if ours(option, text) != value] == []


@pytest.mark.parametrize("key", [key for key in SHARED if PAIMON[key].values])
def test_every_word_is_read_in_the_cases_in_which_paimon_reads_it(key: str) -> None:
    texts = [(text, value) for text, value in parsed(PAIMON[key].kind) if value not in WITHOUT_MEANING_HERE]
    assert len(texts) >= 2 * (PAIMON[key].values.count(",") + 1 - len(WITHOUT_MEANING_HERE))
    assert [(text, value) for text, value in texts if ours(DECLARED[key], text) != value] == []


def test_formats_by_level_are_read_in_any_case() -> None:
    assert DECLARED["file.format.per.level"].of({"file.format.per.level": "0:AVRO, 5 : Orc"}) == {0: "avro", 5: "orc"}
    assert ours(DECLARED["file.format"], "PARQUET") == "parquet"


def test_every_option_has_a_name_of_paimon_or_says_that_it_is_lakelogs() -> None:
    own = {key for key, option in DECLARED.items() if "An option of lakelog." in option.doc}
    assert DECLARED.keys() - PAIMON.keys() == own | OLDER_PROPOSALS


@pytest.mark.parametrize("key", SHARED)
def test_an_option_has_the_type_default_and_older_keys_of_paimon(key: str) -> None:
    option, other = DECLARED[key], PAIMON[key]
    assert (option.kind in KINDS.values()) == (other.kind in KINDS)
    assert option.kind == KINDS.get(other.kind, option.kind)
    if key not in OTHER_DEFAULTS:
        default = None if other.default in ("", "{}") else option.of({key: other.default})
        assert (option.default or None) == (default or None)
    assert option.older_keys == tuple(one for one in other.older_keys.split(",") if one and not one.startswith("log."))
