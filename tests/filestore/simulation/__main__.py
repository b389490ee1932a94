"""Replays seeds: `python -m tests.filestore.simulation SEED ...` prints each history, call by call."""

from __future__ import annotations

import sys

from tests.filestore.simulation.history import simulate

if __name__ == "__main__":
    for seed in map(int, sys.argv[1:]):
        history = simulate(seed)
        print(history.report(lines=len(history.trace)))
