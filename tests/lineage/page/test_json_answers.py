"""JSON in UTF-8, and with escapes where that is not possible."""

from __future__ import annotations

import json

import pytest

from lakelog.lineage.server.json_answers import JsonAnswer


@pytest.mark.parametrize(("text", "is_ascii"), [("plain", True), ("表", False), ("half \ud800 表", True)])
def test_any_text_is_json(text: str, is_ascii: bool) -> None:
    body = JsonAnswer({"name": text}).body
    assert json.loads(bytes(body)) == {"name": text}
    assert bytes(body).isascii() is is_ascii
