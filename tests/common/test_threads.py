from __future__ import annotations

import threading

import pytest

from lakelog.common.threads import in_threads, thread_count

ALONE = threading.current_thread().name


def shares(parts: int, *, budget_bytes: int = 100, threads_max: int | None = None) -> list[tuple[int, int]]:
    return list(
        in_threads(lambda part, share: (part, share), range(parts), budget_bytes=budget_bytes, threads_max=threads_max)
    )


@pytest.mark.parametrize(("parts", "threads_max", "share"), [(8, None, 25), (8, 2, 50), (3, None, 33), (1, None, 100)])
def test_threads_share_the_budget_among_them(
    monkeypatch: pytest.MonkeyPatch, parts: int, threads_max: int | None, share: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert shares(parts, threads_max=threads_max) == [(part, share) for part in range(parts)]


def test_no_parts_need_no_thread() -> None:
    assert shares(0) == []
    assert thread_count(0) == 0


def test_parts_are_worked_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    together = threading.Barrier(3, timeout=10)
    assert sorted(in_threads(lambda part, _: together.wait() * 0 + part, range(3), budget_bytes=1)) == [0, 1, 2]


def test_one_thread_is_the_callers_unless_it_is_prepared() -> None:
    def name(_: int, __: int) -> str:
        return threading.current_thread().name

    assert list(in_threads(name, range(2), budget_bytes=1, threads_max=1)) == [ALONE, ALONE]
    (other,) = set(in_threads(name, range(2), budget_bytes=1, threads_max=1, name="merges", prepare=lambda: None))
    assert other.startswith("merges")


def test_the_first_error_is_raised_once_the_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both, ended = threading.Barrier(2, timeout=10), []

    def work(part: int, _: int) -> None:
        both.wait()
        ended.append(part)
        raise ValueError(f"part {part}")

    with pytest.raises(ValueError, match="part 0"):
        list(in_threads(work, range(2), budget_bytes=1))
    assert sorted(ended) == [0, 1]
