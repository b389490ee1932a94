"""Checks of the task of one bucket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.protocol.writing.tail_checks import TailReader, check_goes_up

TASK = cast("TailReader", SimpleNamespace(bucket=1, table_uuid="u"))


@pytest.mark.parametrize("end", [0, 2, 7])
def test_a_transaction_that_does_not_end_behind_the_log_is_an_error(end: int) -> None:
    with pytest.raises(CorruptDataError, match=r"ends at offset .*, and the log had reached 7: the topic was deleted"):
        check_goes_up(TASK, 7, end)
    check_goes_up(TASK, 7, 9)
