"""What lookups keep: within its limit, keys before rows, and what is in use before what is not."""

from __future__ import annotations

import pytest

from lakelog.filestore.data.group_cache import LOOKUPS_KEPT, GroupCache

ROOM = 10_000
SIZE = 1_000  # nine items of it fit, with what each costs beside its bytes eight


def put_rows(cache: GroupCache, place: object, size: int = SIZE) -> None:
    cache.put_rows((place,), place, size, bytes_max=ROOM)


def held(cache: GroupCache, places: range) -> list[int]:
    return [place for place in places if cache.get((place,)) is not None]


def test_items_that_all_lookups_use_are_not_replaced_by_one_another() -> None:
    """Twelve items in turns, with room for eight: the least recently used would never be found again."""
    cache = GroupCache()
    found = 0
    for _ in range(10):
        cache.begin("bucket-0")
        for place in range(12):
            if cache.get((place,)) is None:
                put_rows(cache, place)
            else:
                found += 1
    assert found == 9 * 8
    assert cache.size_bytes <= ROOM


def test_what_the_last_lookups_of_a_bucket_did_not_use_makes_room() -> None:
    cache = GroupCache()
    for number in range(20):  # neighbouring keys that move on
        cache.begin("bucket-0")
        for place in (number, number + 1):
            if cache.get((place,)) is None:
                put_rows(cache, place)
        assert held(cache, range(number, number + 2)) == [number, number + 1]
    assert cache.size_bytes <= ROOM


def test_a_bucket_in_use_keeps_its_items_while_others_are_looked_up() -> None:
    cache = GroupCache()
    for _ in range(3 * LOOKUPS_KEPT):
        for bucket in range(4):
            cache.begin(f"bucket-{bucket}")
            for place in (3 * bucket, 3 * bucket + 1, 3 * bucket + 2):
                if cache.get((place,)) is None:
                    put_rows(cache, place)
    assert held(cache, range(12)) == list(range(8))


def test_rows_make_room_for_keys_and_keys_never_for_rows() -> None:
    cache = GroupCache()
    cache.begin("bucket-0")
    for place in range(8):
        put_rows(cache, place)
    for place in range(100, 108):
        cache.put_keys((place,), place, SIZE, bytes_max=ROOM)
    put_rows(cache, 8)
    assert held(cache, range(9)) == []
    assert held(cache, range(100, 108)) == list(range(100, 108))


@pytest.mark.parametrize("size", [ROOM, 10 * ROOM])
def test_what_is_larger_than_the_limit_is_not_kept_and_drops_nothing(size: int) -> None:
    cache = GroupCache()
    cache.begin("bucket-0")
    put_rows(cache, 0)
    put_rows(cache, 1, size)
    cache.put_keys((2,), 2, size, bytes_max=ROOM)
    assert held(cache, range(3)) == [0]


def test_a_limit_of_nothing_keeps_nothing() -> None:
    cache = GroupCache()
    cache.begin("bucket-0")
    cache.put_keys(("k",), 1, 0, bytes_max=0)
    cache.put_rows(("r",), 1, 0, bytes_max=0)
    assert cache.size_bytes == 0
    assert cache.get(("k",)) is None
