from __future__ import annotations

from lakelog.common.progress import counted, listening

Report = tuple[str, int, int | None]


def test_a_listener_has_every_step_of_the_work_in_its_block() -> None:
    reports: list[Report] = []
    with listening(lambda *report: reports.append(report)):
        assert list(counted("ab", "letters", total=2)) == ["a", "b"]
    assert list(counted("ab", "letters")) == ["a", "b"]
    assert reports == [("letters", 0, 2), ("letters", 1, 2), ("letters", 2, 2)]


def test_a_step_is_reported_once_the_next_one_is_asked_for() -> None:
    reports: list[Report] = []
    with listening(lambda *report: reports.append(report)):
        steps = counted("ab", "letters")
        next(steps)
        assert reports == [("letters", 0, None)]
        next(steps)
        assert reports[-1] == ("letters", 1, None)
