"""The tests of the codec read a few records as they read many: by Arrow's parser first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.logstore.codec import envelope


@pytest.fixture(scope="module", autouse=True)
def few_records_are_read_as_many() -> Iterator[None]:
    """`test_few_records.py` shows that both ways give the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelope, "_ONE_BY_ONE_MAX", 0)
        yield
