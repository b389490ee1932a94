"""The agreement of the streams of a group: over random histories of rounds, new snapshots, restarts and deaths."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast  # Any: tables that are a name and a newest snapshot alone

import pytest

from lakelog.common.errors import CorruptDataError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.origins.record import TableVersion
from lakelog.spark.source.phases.stream_group import StreamGroup
from lakelog.spark.source.reading.group_folder import GroupFolder
from lakelog.streams.options.align_options import GroupOptions
from lakelog.streams.reading.offsets import Positions
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash

TABLES = ("a", "b", "c")
SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(10, 200))]


class World:
    """Tables that are made from one source: snapshot n of each shows version n of it."""

    def __init__(self, chance: random.Random, tables: Sequence[str] = TABLES) -> None:
        self.chance = chance
        self.newest = dict.fromkeys(tables, 0)

    def goes_on(self) -> None:
        for table in self.newest:
            self.newest[table] += self.chance.choice((0, 0, 0, 1, 2))

    def tables(self) -> Mapping[str, Any]:
        return {
            table: SimpleNamespace(
                name=f"db.{table}", snapshots=SimpleNamespace(latest_id=lambda table=table: self.newest[table])
            )
            for table in self.newest
        }


def next_positions(
    tables: Mapping[str, Any], behind: Positions | None, heads: Mapping[str, int], *, steps: int | None
) -> Positions | LakelogError | None:
    """The next version that all tables show."""
    reached = 0 if behind is None else next(iter(behind.values())).snapshot_id
    version = min(heads.values()) if behind is None or steps is None else min(*heads.values(), reached + steps)
    return None if version <= reached else dict.fromkeys(tables, TableVersion(snapshot_id=version))


def member(world: World, folder: Path, table: str, file_io: FileIO | None = None, **changes: Any) -> StreamGroup:
    names = [f"db.{one}" for one in world.newest]
    given: dict[str, Any] = {"next_positions": next_positions, "steps": 1, "timeout_millis": 0} | changes
    return StreamGroup(
        GroupOptions(name="g", tables=names, folder=str(folder)),
        GroupFolder(str(folder), file_io or LocalFileIO(), group="g"),
        table=table,
        open_tables=cast(Any, world.tables),
        **given,
    )


class Query:
    """What Spark does: all members enter, then a round asks each in the same order, and their ends are kept at once."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self._folder = folder
        self.reached: Positions | None = None
        self.ends: list[int] = []

    def run(self, rounds: int, *, dies_at: int | None) -> None:
        """A run, in which the process dies at one of the calls to files."""
        files = cast(
            FileIO, FaultyFileIO(LocalFileIO(), fails_at=dies_at, after_effect=self.world.chance.random() < 0.5)
        )
        members = [member(self.world, self._folder, table, files) for table in self.world.newest]
        self.world.chance.shuffle(members)  # the order of a run is another one where the query was changed
        try:
            for one in members:
                one.enter()
            for _ in range(rounds):
                self._round(members)
        except InjectedCrash:
            pass

    def _round(self, members: Sequence[StreamGroup]) -> None:
        ends = []
        for one in members:
            self.world.goes_on()
            ends.append(one.end_behind(self.reached))
        assert all(end == ends[0] for end in ends), "a batch ends at other positions in each stream"
        if ends[0] is None:
            return
        last = self.reached
        self.reached = ends[0]
        self.ends.append(next(iter(ends[0].values())).snapshot_id)
        if last is not None:
            for one in members:
                one.let_go(last)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_streams_of_a_group_end_a_batch_at_the_same_decision(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    query = Query(World(chance), tmp_path / "ck")
    for _ in range(8):
        query.run(chance.randint(1, 8), dies_at=chance.choice((None, *range(1, 40))))
    query.run(30, dies_at=None)

    assert len(query.ends) > 5
    assert query.ends == list(range(query.ends[0], query.ends[-1] + 1))  # none is left out, none comes twice
    left = [path.name for path in (tmp_path / "ck" / "g").iterdir() if path.name.startswith("behind-")]
    assert len(left) <= 2  # that behind the last committed batch, and its end


def test_a_batch_that_is_planned_again_takes_the_decision_that_was_made(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    world.newest = {"a": 3, "b": 3}
    first, other = (member(world, tmp_path, table) for table in ("a", "b"))
    first.enter()
    other.enter()
    decided = first.end_behind(None)  # and the process dies before Spark keeps it
    world.newest = {"a": 9, "b": 9}
    again = [member(world, tmp_path, table) for table in ("b", "a")]
    for one in again:
        one.enter()

    assert [one.end_behind(None) for one in again] == [decided, decided]


def test_a_stream_that_is_not_asked_first_never_decides(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    first, other = (member(world, tmp_path, table) for table in ("a", "b"))
    first.enter()
    other.enter()
    world.newest = {"a": 1, "b": 1}
    start = first.end_behind(None)
    assert first.end_behind(start) is None  # nothing is new when the first is asked
    world.newest = {"a": 2, "b": 2}

    assert other.end_behind(start) is None
    assert first.end_behind(start) == other.end_behind(start) == dict.fromkeys("ab", TableVersion(snapshot_id=2))


def test_a_fixed_group_takes_what_was_there(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    world.newest = {"a": 2, "b": 2}
    members = [member(world, tmp_path, table) for table in ("a", "b")]
    for one in members:
        one.fix()
    world.newest = {"a": 5, "b": 5}
    start = members[0].end_behind(None)
    assert start is not None

    assert start["a"].snapshot_id == 2
    assert members[0].end_behind(start) is None


def test_a_table_that_the_query_does_not_read_in_the_group_is_named(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    alone = member(world, tmp_path, "a")
    alone.enter()

    with pytest.raises(InvalidRequestError, match=r"reads no stream of db\.b in it.*read_streams"):
        alone.end_behind(None)


def test_a_table_that_is_read_twice_in_a_group_is_refused(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    members = [member(world, tmp_path, table) for table in ("a", "b", "a")]
    for one in members:
        one.enter()

    with pytest.raises(InvalidRequestError, match=r"two streams of table db\.a"):
        members[0].end_behind(None)


def test_other_tables_in_the_group_need_a_new_checkpoint(tmp_path: Path) -> None:
    world = World(random.Random(0), ("a", "b"))
    one = member(world, tmp_path, "a")

    with pytest.raises(InvalidRequestError, match="new checkpoint location"):
        one.end_behind({"a": TableVersion(snapshot_id=1)})


def test_a_group_waits_at_its_start_for_a_writer_that_is_behind_and_not_for_ever(tmp_path: Path) -> None:
    def behind(*_given: object, **_named: object) -> LakelogError:
        return NotFoundError("db.b shows db.s at snapshot 1")

    world = World(random.Random(0), ("a", "b"))
    times = [0.0]
    changes: dict[str, Any] = {"next_positions": behind, "timeout_millis": 10_000, "clock": lambda: times[0]}
    patient, other = (member(world, tmp_path, table, **changes) for table in ("a", "b"))
    patient.enter()
    other.enter()
    assert patient.end_behind(None) is None
    times[0] = 11.0
    with pytest.raises(NotFoundError, match=r"db\.b shows db\.s at snapshot 1"):
        patient.end_behind(None)

    fixed = [member(world, tmp_path / "now", table, **changes) for table in ("a", "b")]
    for one in fixed:
        one.fix()
    with pytest.raises(NotFoundError):
        fixed[0].end_behind(None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"end": {"a": 1}}', '{"end": {"a": [-1, null]}}', '{"end": {"a": [1]}}']
)
def test_a_damaged_decision_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    world = World(random.Random(0), ("a", "b"))
    one = member(world, tmp_path, "a")
    one.enter()
    (tmp_path / "g" / "behind-start.json").write_text(text)

    with pytest.raises(CorruptDataError, match=r"behind-start\.json.*Delete the folder of the group"):
        one.end_behind(None)
