"""LocalFileIO: what one of several racing or dying callers leaves behind."""

from __future__ import annotations

import errno
import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.filestore.io.local_files import LocalFileIO

RACERS = 8
ROUNDS = 20


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _race(folder: str, racer: int, start: Barrier) -> None:
    won = []
    for turn in range(ROUNDS):
        start.wait()
        if LocalFileIO().create_new(f"{folder}/snapshot-{turn}", str(racer).encode() * 10_000):
            won.append(turn)
    Path(folder, f"won-{racer}").write_text(" ".join(map(str, won)))


def test_of_eight_racing_processes_exactly_one_creates_the_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(RACERS)
    processes = [context.Process(target=_race, args=(str(tmp_path), racer, start)) for racer in range(RACERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    winners = {int(turn): racer for racer in range(RACERS) for turn in (tmp_path / f"won-{racer}").read_text().split()}
    wins = sum(len((tmp_path / f"won-{racer}").read_text().split()) for racer in range(RACERS))
    assert wins == ROUNDS
    assert sorted(winners) == list(range(ROUNDS))
    for turn, racer in winners.items():
        assert (tmp_path / f"snapshot-{turn}").read_bytes() == str(racer).encode() * 10_000
    assert not [name for name in names_in(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("refused", [errno.EPERM, errno.EOPNOTSUPP])
def test_create_new_works_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    def no_link(*_: object) -> None:
        raise OSError(refused, "no links here")

    monkeypatch.setattr(os, "link", no_link)
    path = str(tmp_path / "snapshot-1")
    assert LocalFileIO().create_new(path, b"first")
    assert not LocalFileIO().create_new(path, b"second")
    assert LocalFileIO().read_bytes(path) == b"first"
    assert names_in(tmp_path) == ["snapshot-1"]


@pytest.mark.parametrize("dies_at", ["write", "fsync", "link"])
def test_a_create_that_dies_leaves_no_name_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    class Died(BaseException):
        pass

    def die(*_: object) -> None:
        raise Died

    if dies_at == "write":
        monkeypatch.setattr(os, "fdopen", die)
    else:
        monkeypatch.setattr(os, dies_at, die)
    with pytest.raises(Died):
        LocalFileIO().create_new(str(tmp_path / "snapshot-1"), b"data")

    monkeypatch.undo()
    assert not LocalFileIO().exists(str(tmp_path / "snapshot-1"))
    assert LocalFileIO().create_new(str(tmp_path / "snapshot-1"), b"data")


def test_an_unknown_failure_of_the_link_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(UnavailableError, match="snapshot-1: the disk is gone"):
        LocalFileIO().create_new(str(tmp_path / "snapshot-1"), b"data")
