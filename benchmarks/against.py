"""One benchmark of this checkout beside that of another commit, in turns: scripts/bench --against REV NAME.

The other commit gets a worktree below `.venvs/against`, with an environment of its own, which stay for the next time.
The machine is not quiet, so both run in turns, each round starting with another one, and the medians of the rounds
count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measuring import in_turns

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 2

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The medians of one figure, here and there."""

    here: float
    there: float

    @property
    def ratio(self) -> float | None:
        """Here by there; None where the other one is 0."""
        return self.here / self.there if self.there else None


def compare(here: Sequence[Figures], there: Sequence[Figures]) -> dict[str, Compared]:
    """The figures that all rounds of both have, in the order of the first round here. Pure."""
    rounds = [*here, *there]
    return {
        name: Compared(here=median(one[name] for one in here), there=median(one[name] for one in there))
        for name in here[0]
        if all(name in one for one in rounds)
    }


def worktree_of(revision: str) -> Path:
    """A checkout of a commit with its own environment. Ends the program when there is no such commit."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        sys.exit(f"scripts/bench: this clone has no commit {revision!r}; git fetch brings those of others")
    commit = found.stdout.strip()
    folder = ROOT / ".venvs" / "against" / commit[:12]
    if not folder.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, commit], cwd=ROOT, check=True)
    return folder


def run_once(checkout: Path, name: str, arguments: Sequence[str]) -> Figures:
    """The numbers that the benchmark of a checkout ends with. Ends the program with its output when it fails."""
    command: list[str | Path] = [checkout / "scripts" / "bench", name, "--json", *arguments]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"scripts/bench {name} failed in {checkout}:\n{done.stdout}{done.stderr}")
    last: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return {key: value for key, value in last.items() if isinstance(value, int | float)}


def main() -> None:
    """Print the figures of both, and their ratios."""
    parser = argparse.ArgumentParser(prog="scripts/bench --against", description=__doc__)
    parser.add_argument("revision", metavar="REV", help="the other commit")
    parser.add_argument("name", metavar="NAME", help="the benchmark, which both commits must have")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each runs; {ROUNDS} by default")
    parser.add_argument("--small", action="store_true", help="few rows, to see that it runs: its ratios mean nothing")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object of ratios")
    given = parser.parse_args()
    other = worktree_of(given.revision)
    arguments = ["--small"] if given.small else []
    found = in_turns(
        {
            "here": lambda: run_once(ROOT, given.name, arguments),
            "there": lambda: run_once(other, given.name, arguments),
        },
        repeats=given.rounds,
    )
    compared = compare(found["here"], found["there"])
    print(f"{given.name}: here and at {given.revision}, medians of {given.rounds} rounds in turns")
    for name, one in compared.items():
        ratio = "-" if one.ratio is None else f"{one.ratio:.3f}"
        print(f"{name:28} {one.here:>14,g} {one.there:>14,g} {ratio:>8}")
    if given.json:
        print(json.dumps({name: one.ratio for name, one in compared.items()}))


if __name__ == "__main__":
    main()
