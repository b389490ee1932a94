"""Random histories of tables with a log, tags and branches, with deaths: lines and tags keep their rows, log = files.

The histories, the model and their verbs are in `tests.support.logs.logged_history`; a failing one names its seed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.protocol.statements import branch_merging, statements
from lakelog.streams.phases import stream_head
from tests.support.logs.logged_history import LoggedHistory
from tests.support.logs.logged_lines import KINDS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GATE_SEEDS = range(1)
FULL_SEEDS = range(1, 61)  # with --full too: fewer do not see each verb
GATE_STEPS = 14
FULL_STEPS = 30


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that died is not waited for, and a look at the table is never an old one."""
    for module in (statements, branch_merging):
        monkeypatch.setattr(module, "GRACE_MILLIS", -1)
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


def run(kind: str, seeds: range, steps: int, servers: str, folder: Path) -> Counter[str]:
    happened: Counter[str] = Counter()
    for seed in seeds:
        history = LoggedHistory(Catalog(folder / str(seed), bootstrap_servers=servers), KINDS[kind], seed)
        history.run(steps)
        happened += history.happened
    return happened


@pytest.mark.parametrize("kind", KINDS)
def test_lines_tags_logs_and_readers_come_to_the_model(kind: str, bootstrap_servers: str, tmp_path: Path) -> None:
    run(kind, GATE_SEEDS, GATE_STEPS, bootstrap_servers, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_histories_come_to_the_model(kind: str, bootstrap_servers: str, tmp_path: Path) -> None:
    happened = run(kind, FULL_SEEDS, FULL_STEPS, bootstrap_servers, tmp_path)
    print(dict(sorted(happened.items())))
    verbs = ("large restore", "restore", "merge", "take branch", "log", "unlog", "rollback", "read")
    for one in ("died", "a part in the tail", *verbs):
        assert happened[one] > 0, f"the histories never saw {one!r}: they prove nothing about it"
