"""The index that the server answers from, while it is read again and questions are asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakelog.lineage.columns.field_runs import KnownFields
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.server.page_app import page_app
from tests.support.lineage.known_world import KnownWorld
from tests.support.lineage.page_client import client_of_app

WRITES, READERS, QUESTIONS = 40, 4, 60


def test_each_question_of_many_threads_is_answered_while_the_index_changes() -> None:
    """Runs go on, which is taken in place, and new writes come, for which the index is built again."""
    worlds: list[KnownFields] = []
    world = KnownWorld().table("db.s", "v").table("db.t", "x")
    for number in range(WRITES):
        if number % 4 == 0:
            world.write("db.t", {"x": ["db.s.v"]}, sql={"x": f"v + {number}"}, run=f"run {number}")
        world.runs[-1] = replace(world.runs[-1], last_millis=world.runs[-1].last_millis + 1)
        worlds.append(world.known())
    lock, left = threading.Lock(), iter(worlds)

    def read() -> KnownFields:
        with lock:
            return next(left, worlds[-1])

    state = PageState(read, refresh_seconds=0)
    client = client_of_app(page_app(state))
    path = "/api/edge?fromNs=db&fromDataset=s&fromField=v&toNs=db&toDataset=t&toField=x"

    def ask(_: int) -> list[int]:
        return [client.get(path).json()["total"] for _ in range(QUESTIONS)]

    with ThreadPoolExecutor(READERS) as readers:
        answers = list(readers.map(ask, range(READERS)))

    state.index()
    assert client.get(path).json()["total"] == WRITES // 4
    for totals in answers:
        assert totals == sorted(totals)  # what was seen once is seen from then on
    state.close()


def test_only_one_request_reads_and_the_others_get_what_is_there() -> None:
    world = KnownWorld().table("db.t", "x")
    begun, may_end, count = threading.Event(), threading.Event(), [0]

    def read() -> KnownFields:
        count[0] += 1
        if count[0] > 1:
            begun.set()
            assert may_end.wait(60)
        return world.known()

    state = PageState(read, refresh_seconds=0)
    first = state.index()
    reader = threading.Thread(target=state.index)
    reader.start()
    assert begun.wait(60)

    assert state.index() is first
    assert count == [2]
    may_end.set()
    reader.join()
    state.close()
