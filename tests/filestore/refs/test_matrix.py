"""Each way to name a state shows its rows, for each kind of table, before and after the others have expired.

`tests/spark/source/test_stream_matrix.py` has the same for streams, `tests/integration/refs/test_logged_matrix.py` for
tables with a log.
"""

from __future__ import annotations

import pytest

from lakelog.common.errors import NotFoundError
from tests.support.tables.named_states import KINDS, WAYS, Filled


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=[False, True], ids=["living", "expired"])
def is_expired(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, kind: str, *, is_expired: bool) -> Filled:
    made = Filled(tmp_path_factory.mktemp("states"), KINDS[kind])
    if is_expired:
        made.expire()
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_shown(filled: Filled, way: str, *, is_expired: bool) -> None:
    which = filled.named(way)
    if way == "snapshot" and is_expired:
        with pytest.raises(NotFoundError, match="snapshot"):
            filled.shown(**which)
    elif way == "branch":
        assert filled.shown(**which) == filled.side_states[-1]
    else:
        assert filled.shown(**which) == filled.states[3]
    assert filled.shown() == filled.states[5]
