"""Where rows come from: which snapshots of which tables made a snapshot."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.lineage.feeding import Fed, feed
    from lakelog.lineage.known import known_edges

__all__ = ["Fed", "feed", "known_edges"]
# A name is imported when it is used first: a writer needs nothing of those that ask.
_HOMES = {
    "Fed": "lakelog.lineage.feeding",
    "feed": "lakelog.lineage.feeding",
    "known_edges": "lakelog.lineage.known",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)
