"""Answers as JSON, whatever characters are in the names of others."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """An answer as JSON in UTF-8; with escapes where a name has halves of characters, which UTF-8 cannot write."""

    def render(self, content: object) -> bytes:
        """The bytes of the answer."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            return text.encode()
        except UnicodeEncodeError:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
