"""A cache holds what was used last, and no more than its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.bounded_cache import BoundedCache

CALLS = st.lists(st.tuples(st.sampled_from(["get", "put", "add", "take"]), st.integers(0, 5)), max_size=40)


@given(CALLS, st.integers(1, 4))
def test_the_values_used_last_are_held(calls: list[tuple[str, int]], count_max: int) -> None:
    cache: BoundedCache[int, int] = BoundedCache(count_max)
    used: list[tuple[int, int]] = []  # keys and values, the last used at the end
    for at, (call, key) in enumerate(calls):
        value = dict(used).get(key)
        used = [one for one in used if one[0] != key or (call == "add" and value is not None)]
        if call == "get":
            assert cache.get(key) == value
            used += [] if value is None else [(key, value)]
        elif call == "take":
            assert cache.take(key) == value
        elif call == "put":
            cache.put(key, at)
            used.append((key, at))
        else:
            cache.add(key, at)
            used += [(key, at)] if value is None else []
        used = used[-count_max:]
        assert cache.values() == [one for _, one in used]


def test_a_value_larger_than_all_bytes_is_not_held() -> None:
    cache: BoundedCache[str, str] = BoundedCache(bytes_max=1_000)
    cache.put("a", "small", 100)
    cache.put("b", "large", 2_000)
    assert ("a" in cache, "b" in cache, cache.size_bytes) == (False, False, 0)


def test_what_is_taken_or_replaced_is_not_counted() -> None:
    cache: BoundedCache[str, str] = BoundedCache(bytes_max=1_000)
    for _ in range(5):
        cache.put("a", "one", 500)
    assert cache.take("a") == "one"
    assert (cache.take("a"), cache.size_bytes) == (None, 0)
