"""Files of every kind are damaged in every way: a read gives the right rows, or an error that names the file.

An error that names no damaged file, one of another class, or other rows are what must never come.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError, LakelogError, NotFoundError
from tests.support.attacks.damage import DAMAGES, KINDS, QUESTIONS, Answer, Damaged, answer, damaged, make_table

WAYS_OUT = ("restore", "plan the read again", "delete LATEST", "read the rows of a snapshot")
FORMAT_OF = {"orc": "orc", "avro": "avro"}
# Without a start, changes begin with the oldest snapshot that is there: one that is missing may have expired.
EXPECTED_LOSS = {("snapshot", "lose", "changes that are there")}
# Where most answers do not need the files of a kind: those that do.
ASKED = {
    "changelog": ("changelog", "all rows"),
    "tag": ("a tag", "another tag"),
    "manifest list": ("changes", "changelog", "all rows", "a snapshot"),
    "manifest": ("changes", "changelog", "all rows", "a snapshot"),
}
SNAPSHOT_FILE = re.compile(r"^snapshot-(\d+)$")
KEYLESS = {"index manifest", "index", "hint"}


class Outcomes:
    """What one table answers while it is damaged."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.table = make_table(folder, FORMAT_OF.get(kind, "parquet"), has_key=kind not in KEYLESS)
        self.right: dict[str, Answer] = {name: answer(self.table.path, ask) for name, ask in QUESTIONS.items()}
        assert all(self.right.values()), self.right
        self.seen: Counter[str] = Counter()

    def damage(self, damage: str, seed: int, *, count: int) -> None:
        """Damage one file and ask so many questions, others for another seed."""
        names = itertools.cycle(ASKED.get(self.kind, tuple(QUESTIONS)))
        with damaged(Path(self.table.path), self.kind, damage, seed) as done:
            for name in itertools.islice(names, seed * count, (seed + 1) * count):
                if (self.kind, damage, name) in EXPECTED_LOSS:
                    continue
                ask = QUESTIONS[name]
                what = f"{name} after {done.what} (kind {self.kind!r}, damage {damage!r}, seed {seed})"
                try:
                    found = answer(self.table.path, ask)
                except (CorruptDataError, NotFoundError) as error:
                    check_told(error, done, what)
                    self.seen["told"] += 1
                except Exception as error:  # noqa: BLE001 - what must not come is reported with the seed
                    pytest.fail(f"{what}: {error!r}")
                else:
                    assert found == self.right[name], f"{what}: wrong rows"
                    self.seen["right"] += 1


def check_told(error: LakelogError, done: Damaged, what: str) -> None:
    """The error names a file that was damaged, or its snapshot, and what to do."""
    text = str(error)
    names = [name for file in done.files for name in (file.name, SNAPSHOT_FILE.sub(r"snapshot \1 ", file.name))]
    assert any(name in text for name in names), f"{what} names no damaged file: {text}"
    assert any(way in text for way in WAYS_OUT), f"{what} shows no way out: {text}"


@pytest.mark.parametrize("kind", KINDS)
def test_damages_are_errors_or_harmless(tmp_path: Path, kind: str) -> None:
    outcomes = Outcomes(tmp_path, kind)
    for damage in DAMAGES:
        for seed in range(6 if damage == "flip" else 1):
            outcomes.damage(damage, seed, count=2)
    if kind != "hint":
        assert outcomes.seen["told"] > 0


@pytest.mark.full
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("kind", KINDS)
def test_600_damages_of_each_kind_are_errors_or_harmless(tmp_path: Path, kind: str) -> None:
    outcomes = Outcomes(tmp_path, kind)
    started = time.monotonic()
    for damage in DAMAGES:
        for seed in range(100):
            outcomes.damage(damage, seed, count=3)
    assert kind == "hint" or outcomes.seen["told"] > 100
    print(kind, dict(outcomes.seen), f"{time.monotonic() - started:.0f} s")
