"""Random graphs of jobs against a model of versions: consistent snapshots are right, and the newest there are.

Where snapshots expire and are forgotten, fed or not, an answer is right all the same, though older ones may be refused.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.filestore.metadata.origins.record import LineKey
from lakelog.lineage.answers.consistent import ConsistentSnapshots, NotConsistentError, agree
from lakelog.lineage.lines.line_graph import LineGraph
from tests.lineage.model import Model, Snapshot
from tests.support.examples import examples

EVENTS = 45
QUESTIONS = 3  # of one history
_PATHS = re.compile(r"(t\d+) is made from (.+?) over several paths")


def history(
    seed: int, events: int = EVENTS, *, branches: bool = False, forgets: bool = False, waits: bool = False
) -> Model:
    choose = random.Random(seed)
    roots, derived = choose.choice([1, 2]), choose.choice([2, 3])
    model = Model(choose, roots=roots, derived=derived, branches=branches, forgets=forgets, waits=waits)
    for _ in range(events):
        model.step()
    return model


def asked_of(model: Model, seed: int) -> list[str]:
    choose = random.Random(seed)
    there = [name for name in model.tables if model.tables[name].snapshots]
    return choose.sample(there, min(len(there), choose.choice([1, 2, 2, 2, 3])))


def answer(model: Model, asked: Sequence[str], graph: LineGraph | None = None) -> ConsistentSnapshots | None:
    try:
        return agree(graph or model.graph(), {name: model.tables[name].key for name in asked})
    except NotConsistentError:
        return None


def above(model: Model, names: Sequence[str]) -> list[str]:
    """These tables, and all that any snapshot of theirs was made from."""
    found = list(names)
    for name in found:
        found += [one for one in sources_of(model, name) if one not in found]
    return found


def sources_of(model: Model, name: str) -> list[str]:
    snapshots = model.tables[name].snapshots
    return sorted({part.source for snapshot in snapshots for part in snapshot.parts.values()})


def can_agree(model: Model, chosen: dict[str, Snapshot | str], waiting: list[str], hidden: dict[str, str]) -> bool:
    """Whether all that the chosen snapshots are made from can be chosen too, by trying all.

    A snapshot that its table has not any more is its version. A source that is shown at no version may be reached
    through no other table, nor what is above it: `hidden` has the table through which it is reached.
    """
    if not waiting:
        return not hidden.keys() & chosen.keys()
    name, *others = waiting
    here = chosen[name]
    hidden = dict(hidden)
    options: dict[str, list[Snapshot | str]] = {}
    for source in sources_of(model, name):
        parts = [one for one in here.parts.values() if one.source == source] if isinstance(here, Snapshot) else []
        if isinstance(here, Snapshot) and not parts:
            continue
        shown = {model.shown(part) for part in parts}
        version = shown.pop() if len(shown) == 1 else None
        if version is None:
            if any(hidden.setdefault(one, name) != name for one in above(model, [source])):
                return False
            continue
        same: list[Snapshot | str] = [one for one in model.tables[source].snapshots if one.version == version]
        if source not in chosen:
            options[source] = same or [version]
        elif chosen[source] not in (same or [version]):
            return False
    return any(
        can_agree(model, chosen | dict(zip(options, values, strict=True)), [*others, *options], hidden)
        for values in product(*options.values())
    )


def newest_by_force(model: Model, asked: Sequence[str]) -> dict[str, int] | None:
    """The newest consistent snapshots, the first table's before the second's."""
    for values in product(*(model.living(name)[::-1] for name in asked)):
        if can_agree(model, dict(zip(asked, values, strict=True)), list(asked), {}):
            return {name: one.id for name, one in zip(asked, values, strict=True)}
    return None


def recomputed_differently(model: Model, found: ConsistentSnapshots) -> Iterator[str]:
    """The parts of tables in an answer whose rows are not those that the named versions of their sources give."""
    named = {name: version.commit for name, version in (*found.versions.items(), *found.snapshots.items())}
    for name, commit in named.items():
        if commit is None or commit not in model.by_commit:
            continue
        table = model.by_commit[commit]
        for read, part in table.parts.items():
            if part.source not in named:
                continue
            source = model.by_commit[str(named[part.source])]
            there = {key: value for key, value in table.in_batch.items() if key[:2] == (read[0], str(read[1]))}
            if there != model.made_of(read, source.in_batch):
                yield f"{name} by {read} from {part.source}"


def check_rows(seed: int, which: int, *, branches: bool = False) -> None:
    model = history(seed, branches=branches)
    found = answer(model, asked_of(model, which))
    assert found is None or list(recomputed_differently(model, found)) == []


def check_forgetful(seed: int, which: int, *, branches: bool) -> None:
    """The rows of answers are right; and so is, by trying all, what they are made from."""
    model = history(seed, branches=branches, forgets=True)
    graph = model.graph()
    for number in range(QUESTIONS):
        found = answer(model, asked_of(model, which + number), graph)
        assert found is None or list(recomputed_differently(model, found)) == []
    if branches:  # a merge that does not know what its branch was made from hides more than is so
        return
    model = history(seed, events=26, forgets=True)
    graph = model.graph()
    for number in range(QUESTIONS):
        found = answer(model, asked_of(model, which + number), graph)
        commits = {} if found is None else {name: str(one.commit) for name, one in found.snapshots.items()}
        assert can_agree(model, {name: model.by_commit[one] for name, one in commits.items()}, list(commits), {})


def check_waiting(seed: int, which: int, *, forgets: bool) -> None:
    """The rows of answers are those that batch reads show where rows of roots wait for compactions."""
    model = history(seed, forgets=forgets, waits=True)
    graph = model.graph()
    for number in range(QUESTIONS):
        found = answer(model, asked_of(model, which + number), graph)
        assert found is None or list(recomputed_differently(model, found)) == []


def check_newest(seed: int, which: int) -> None:
    model = history(seed, events=26)
    asked = asked_of(model, which)
    found = answer(model, asked)
    expected = newest_by_force(model, asked)
    if found is None and expected is not None:
        with pytest.raises(NotConsistentError, match="has no lineage"):
            agree(model.graph(), {name: LineKey(name) for name in asked})
        return
    assert (None if found is None else dict(found)) == expected


SEEDS = {"seed": st.integers(0, 1 << 32), "which": st.integers(0, 1 << 16)}
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


@given(**SEEDS)
@settings(max_examples=examples(80), deadline=None, phases=PHASES)
def test_the_named_versions_recompute_to_the_rows_of_each_table(seed: int, which: int) -> None:
    check_rows(seed, which)


@given(**SEEDS)
@settings(max_examples=examples(80), deadline=None, phases=PHASES)
def test_the_named_versions_recompute_where_branches_are_merged(seed: int, which: int) -> None:
    check_rows(seed, which, branches=True)


@pytest.mark.parametrize("branches", [False, True])
@example(seed=4741290, which=437)
@example(seed=3452, which=561)  # an expired snapshot was made from another table than those that live
@given(**SEEDS)
@settings(max_examples=examples(80), deadline=None, phases=PHASES)
def test_what_has_expired_makes_no_answer_wrong(branches: bool, seed: int, which: int) -> None:
    check_forgetful(seed, which, branches=branches)


@pytest.mark.parametrize("forgets", [False, True])
@given(**SEEDS)
@settings(max_examples=examples(80), deadline=None, phases=PHASES)
def test_rows_that_wait_for_a_compaction_make_no_answer_wrong(forgets: bool, seed: int, which: int) -> None:
    check_waiting(seed, which, forgets=forgets)


@given(**SEEDS)
@settings(max_examples=examples(60), deadline=None, phases=PHASES)
def test_no_newer_snapshots_are_consistent(seed: int, which: int) -> None:
    check_newest(seed, which)


def reached_twice(model: Model, name: str) -> set[str]:
    """The tables from which a table is made over several paths."""
    there = above(model, [name])
    return {one for one in there if sum(one in sources_of(model, reader) for reader in there) > 1}


@given(**SEEDS)
@settings(max_examples=examples(60), deadline=None, phases=PHASES)
def test_several_paths_are_named_where_there_are_several(seed: int, which: int) -> None:
    model = history(seed, events=35)
    asked = asked_of(model, which)
    choose = random.Random(which)
    pinned = choose.choice(above(model, asked))
    at = {pinned: choose.choice(model.tables[pinned].snapshots).id} if model.tables[pinned].snapshots else None
    for one in (None, at):
        try:
            texts = list(agree(model.graph(), {name: LineKey(name) for name in asked}, one).reasons.values())
        except NotConsistentError as error:
            texts = list(error.hindrances)
        except (InvalidRequestError, NotFoundError):  # the pinned snapshot has expired, or is of another line by now
            continue
        for name, source in (found for text in texts for found in _PATHS.findall(text)):
            assert set(source.split(", ")) <= reached_twice(model, name)


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
@given(**SEEDS)
@settings(max_examples=examples(200), deadline=None, phases=PHASES)
def test_many_more_histories_recompute_and_have_none_newer(part: int, seed: int, which: int) -> None:
    check_rows(seed, which)
    check_rows(seed, which, branches=True)
    check_newest(seed, which)
    for is_so in (False, True):
        check_forgetful(seed, which, branches=is_so)
        check_waiting(seed, which, forgets=is_so)
