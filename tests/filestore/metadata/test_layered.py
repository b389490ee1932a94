"""Maps that share what did not change."""

from __future__ import annotations

from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.metadata.manifests.layered import LayeredMap

CHANGES = st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=30), max_size=12)


@given(changes=CHANGES, base=st.sets(st.integers(0, 60)))
def test_a_layered_map_is_a_dict_that_keeps_what_it_was(changes: list[list[tuple[bool, int]]], base: set[int]) -> None:
    held: LayeredMap[int, int | None] = LayeredMap(dict.fromkeys(base))
    model: dict[int, int | None] = dict.fromkeys(base)
    states = [(held, dict(model))]
    for number, change in enumerate(changes):
        draft = held.draft()
        for is_put, key in change:
            assert (key in draft) == (key in model)
            model.pop(key, None)
            if is_put:
                draft.put(key, number)
                model[key] = number
            else:
                draft.discard(key)
        held = draft.done()
        states.append((held, dict(model)))
    for state, expected in states:
        assert list(state) == list(expected)
        assert list(state.values()) == list(expected.values())
        assert list(state.items()) == list(expected.items())
        assert len(state) == len(expected)
        assert [key in state for key in range(61)] == [key in expected for key in range(61)]
        assert state == expected


def test_a_key_that_was_taken_away_is_not_found() -> None:
    draft = LayeredMap({1: "one", 2: "two"}).draft()
    draft.discard(1)
    made = draft.done()
    with pytest.raises(KeyError):
        made[1]
    assert made.get(1) is None
    assert made[2] == "two"


def test_a_chain_of_changes_shares_the_entries_that_do_not_change() -> None:
    held = LayeredMap({key: key for key in range(10_000)})
    copied = 0
    for key in range(10_000, 12_000):
        draft = held.draft()
        draft.put(key, key)
        draft.discard(key - 10_000)
        before, held = held, draft.done()
        copied += len(held) if held._base is not before._base else len(held._added) + len(held._removed)
    assert copied < 2_000 * 6 * isqrt(10_000)  # a plain dict: 2_000 * 10_000
    assert list(held) == list(range(2_000, 12_000))
