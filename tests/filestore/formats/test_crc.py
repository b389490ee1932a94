"""Checksums are those of zlib, whichever library makes them."""

from __future__ import annotations

import importlib
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.formats.blocks import crc


@given(data=st.binary(max_size=3_000), before=st.integers(0, (1 << 32) - 1))
def test_checksums_are_those_of_zlib(data: bytes, before: int) -> None:
    assert crc.crc32(data) == zlib.crc32(data)
    assert crc.crc32(memoryview(data), before) == zlib.crc32(data, before)


def test_isal_makes_them_where_it_is_and_zlib_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert crc.crc32 is not zlib.crc32  # what the tests run on has it
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "isal.isal_zlib", None)
        assert importlib.reload(crc).crc32 is zlib.crc32
    assert importlib.reload(crc).crc32 is not zlib.crc32
