"""What is served while the warehouse cannot be read."""

from __future__ import annotations

from typing import Any  # Any: what a world knows

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.server.page_app import page_app
from tests.support.lineage.known_world import KnownWorld
from tests.support.lineage.page_client import client_of_app


@pytest.mark.parametrize("error", [UnavailableError("the disk is gone"), RuntimeError("a bug")])
def test_what_is_known_is_served_while_it_cannot_be_read_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world, errors = KnownWorld().table("db.t", "x"), list[Exception]()

    def read() -> Any:
        for one in errors:
            raise one
        return world.known()

    state = PageState(read, refresh_seconds=0)
    client = client_of_app(page_app(state))
    assert client.get("/api/search").status_code == 200

    errors.append(error)
    assert client.get("/api/search").json()["total"] == 1
    assert "is shown as it was" in caplog.text
    state.close()


def test_a_first_read_that_fails_is_an_answer_that_says_so() -> None:
    def read() -> Any:
        raise UnavailableError("the disk is gone")

    answer = client_of_app(page_app(PageState(read))).get("/api/search")

    assert (answer.status_code, answer.json()) == (503, {"error": "the disk is gone"})
