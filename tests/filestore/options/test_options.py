"""Options of the file store: Paimon's names and defaults, declared once."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from lakelog.common.errors import OptionError
from lakelog.common.options import Option
from lakelog.filestore import options
from lakelog.filestore.options import FILESTORE_OPTIONS, check_options
from lakelog.filestore.options.layout import BUCKET
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET, ScanMode

PAIMON_DEFAULTS = {
    "bucket-function.type": "default",
    "partition.default-name": "__DEFAULT_PARTITION__",
    "partition.legacy-name": True,
    "merge-engine": "deduplicate",
    "ignore-delete": False,
    "changelog-producer": "none",
    "deletion-vectors.enabled": False,
    "file.format": "parquet",
    "file.compression": "zstd",
    "file.compression.zstd-level": 1,
    "data-file.prefix": "data-",
    "changelog-file.prefix": "changelog-",
    "data-file.thin-mode": False,
    "metadata.stats-mode": "truncate(16)",
    "manifest.compression": "zstd",
    "manifest.target-file-size": 8 << 20,
    "manifest.merge-min-count": 30,
    "manifest.full-compaction-threshold-size": 16 << 20,
    "num-sorted-run.compaction-trigger": 5,
    "compaction.max-size-amplification-percent": 200,
    "compaction.size-ratio": 1,
    "write-only": False,
    "commit.min-retry-wait": 10,
    "commit.max-retry-wait": 10_000,
    "snapshot.num-retained.min": 10,
    "snapshot.num-retained.max": 2_147_483_647,
    "snapshot.time-retained": 3_600_000,
    "scan.mode": "default",
}


def test_commits_try_for_a_time_and_not_a_number_of_times() -> None:
    """Paimon gives up after ten retries by default: sixteen writers at once lose more races than that."""
    declared = {option.key: option.default for option in FILESTORE_OPTIONS}
    assert (declared["commit.max-retries"], declared["commit.timeout"]) == (None, 600_000)


def test_defaults_are_those_of_paimon() -> None:
    declared = {option.key: option.default for option in FILESTORE_OPTIONS}
    assert {key: declared[key] for key in PAIMON_DEFAULTS} == PAIMON_DEFAULTS


def test_a_table_of_ours_has_one_bucket() -> None:
    assert BUCKET.of({}) == 1
    assert READ_MEMORY_BUDGET.of({}) == 256 << 20


def test_every_declared_option_is_listed_once_and_documented() -> None:
    modules = (import_module(f"{options.__name__}.{found.name}") for found in iter_modules(options.__path__))
    declared = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Option)}
    assert len({option.key for option in FILESTORE_OPTIONS}) == len(FILESTORE_OPTIONS) == len(declared)
    for option in FILESTORE_OPTIONS:
        assert option.doc.endswith(".")
        assert option.kind


@pytest.mark.parametrize("key", sorted(option.key for option in FILESTORE_OPTIONS))
def test_no_option_takes_every_text(key: str) -> None:
    """Options that are no free text refuse nonsense, naming key and value."""
    option = next(option for option in FILESTORE_OPTIONS if option.key == key)
    if option.kind in ("text", "a column name", "column names with commas", "a timestamp"):
        return
    with pytest.raises(OptionError, match=f"option '{key}' has the value '~'; expected"):
        check_options({key: "~"})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("bucket", "-2", -2),
        ("target-file-size", "64 mb", 64 << 20),
        ("snapshot.time-retained", "2 h", 7_200_000),
        ("write-only", "TRUE", True),
        ("bucket-key", "a, b,,c", ("a", "b", "c")),
        ("scan.mode", "from-snapshot", ScanMode.FROM_SNAPSHOT),
        ("scan.snapshot-id", "3", 3),
    ],
)
def test_values_are_parsed(key: str, text: str, value: object) -> None:
    option = next(option for option in FILESTORE_OPTIONS if option.key == key)
    assert option.of({key: text}) == value


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(OptionError, match=r"unknown option 'file-format'; did you mean 'file\.format'"):
        check_options({"bucket": "2", "file-format": "orc"})
    check_options({"fields.v.aggregate-function": "sum"})
    with pytest.raises(
        OptionError, match=r"'record-level\.expire-time' of Paimon makes compactions drop old rows, which"
    ):
        check_options({"record-level.expire-time": "1 d"})
    with pytest.raises(OptionError, match="unknown option 'fields'"):
        check_options({"fields": "v"})


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("fields.v.agregate-function", r"fields\.v\.aggregate-function"),
        ("fields.a,b.sequence-groups", r"fields\.a,b\.sequence-group"),
        ("fields.default-agregate-function", r"fields\.default-aggregate-function"),
    ],
)
def test_a_mistake_behind_the_columns_of_an_option_is_named(key: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"did you mean '{near}'"):
        check_options({key: "sum"})
