"""What the gate may take: the seconds of processor time of each folder of tests, and the long tests with their reasons.

usage: python -m tests.support.budgets .durations/<run>.xml [--write]
Compares a whole run of the gate with `tests/budgets.toml`, and ends with 1 where a folder or a test is over its budget
or is not in the file. A slow machine has more: its fixed work (see `processor_time`) takes longer than the one that is
in the file. `--write` replaces the seconds of the folders by those of the run, and half as much more: which process
starts a Spark, and what runs beside it, changes from run to run.
"""

from __future__ import annotations

import argparse
import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from xml.etree import ElementTree as ET

from tests.support.processor_time import SHARED_PROPERTY, SPEED_PROPERTY, TEST_PROPERTY

BUDGETS = Path(__file__).parent.parent / "budgets.toml"
LONG_SECONDS = 15.0  # a test that takes longer is in `--full`, or has a reason to be in the gate; half more is refused
_FIRST_SECONDS = 10  # the first test of a Spark pays this for all that follow, and any test may be the first
_MORE, _MORE_SECONDS = 1.5, 2 * _FIRST_SECONDS
SHARED = "fixtures of the session"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A run: the seconds of each folder and of each test, and the median of the fixed work."""

    folders: Mapping[str, float]
    tests: Mapping[str, float]
    fixed_work: float


def measured(durations: Path) -> Measured:
    """Read the durations of a run. What all tests share, such as a Spark, has a row of its own, as a folder has."""
    folders: dict[str, float] = {}
    tests: dict[str, float] = {}
    fixed: list[float] = []
    for case in ET.parse(durations).iter("testcase"):
        values = {one.get("name"): float(one.get("value", "0")) for one in case.iter("property")}
        fixed += [values[SPEED_PROPERTY]] if SPEED_PROPERTY in values else []
        module = case.get("classname", "").partition(".Test")[0].replace(".", "/")
        folder = module.rpartition("/")[0]
        tests[f"{module}.py::{case.get('name')}"] = seconds = values.get(TEST_PROPERTY, 0.0)
        folders[folder] = folders.get(folder, 0.0) + seconds
        folders[SHARED] = folders.get(SHARED, 0.0) + values.get(SHARED_PROPERTY, 0.0)
    return Measured(folders=folders, tests=tests, fixed_work=median(fixed) if fixed else 0.0)


def over_budget(run: Measured, budgets: Mapping[str, Mapping[str, object]]) -> list[str]:
    """What takes more than it may, in words; budgets that have no folder or no test any more are named too."""
    seconds: Mapping[str, object] = budgets["seconds"]
    long: Mapping[str, object] = budgets["long"]
    slower = max(1.0, run.fixed_work / float(str(budgets["machine"]["fixed_work"])))
    found: list[str] = []
    for folder, taken in sorted(run.folders.items()):
        if folder not in seconds:
            found.append(f"{folder} has no budget; its tests took {taken:.0f} s")
        elif taken / slower > float(str(seconds[folder])):
            found.append(f"{folder} took {taken / slower:.0f} s of the {seconds[folder]} s that it has")
    found += [f"{folder} has a budget and no test" for folder in sorted(seconds.keys() - run.folders.keys())]
    found += [
        f"{name} took {taken / slower:.0f} s: mark it `full`, or say in [long] what it alone guards"
        for name, taken in sorted(run.tests.items())
        if taken / slower > LONG_SECONDS * _MORE + _FIRST_SECONDS and name not in long
    ]
    found += [f"{name} of [long] is no test of the gate" for name in sorted(long.keys() - run.tests.keys())]
    return found


def written(run: Measured, text: str) -> str:
    """The text of the file of budgets with the seconds of a run; the reasons of long tests stay."""
    before, _, after = text.partition("[seconds]\n")
    long = after[after.index("[long]") :]
    before = "\n".join(
        f"fixed_work = {run.fixed_work:.4f}" if line.startswith("fixed_work =") else line for line in before.split("\n")
    )
    lines = [
        f'"{folder}" = {math.ceil(taken * _MORE) + _MORE_SECONDS}' for folder, taken in sorted(run.folders.items())
    ]
    return f"{before}[seconds]\n" + "\n".join(lines) + f"\n\n{long}"


def main() -> int:
    """Compare or write, see above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("durations", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    run = measured(arguments.durations)
    if arguments.write:
        BUDGETS.write_text(written(run, BUDGETS.read_text("utf-8")), "utf-8")
        return 0
    found = over_budget(run, tomllib.loads(BUDGETS.read_text("utf-8")))
    print(f"{sum(run.folders.values()):.0f} s of processor time in {len(run.tests)} tests")
    for line in found:
        print(f"over budget: {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
