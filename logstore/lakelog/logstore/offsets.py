"""Positions of all partitions of a topic: one request each, read_uncommitted unless it says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """An offset of a partition, and the leader epoch it was told by; None when the broker gave none."""

    offset: int
    leader_epoch: int | None


def high_watermarks(client_config: Mapping[str, str], topic: str, partition_count: int) -> dict[int, Position]:
    """Partition -> the offset behind the newest record, open transactions included."""
    raise NotImplementedError


def last_stable_offsets(client_config: Mapping[str, str], topic: str, partition_count: int) -> dict[int, Position]:
    """Partition -> the offset up to which read_committed consumers see. Raises UnavailableError.

    It lags behind a commit by some milliseconds.
    """
    raise NotImplementedError


def log_start_offsets(client_config: Mapping[str, str], topic: str, partition_count: int) -> dict[int, Position]:
    """Partition -> the oldest offset that retention has left. Raises UnavailableError."""
    raise NotImplementedError
