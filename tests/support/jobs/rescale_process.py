"""A process that rescales a logged table, or writes a batch of a stream, and maybe kills itself at an event."""

from __future__ import annotations

import os
import signal

from lakelog.catalog import Catalog
from tests.support.logs.rescales import dying_rescale
from tests.support.streams.planned_reader import write


def main(lake: str, servers: str, what: str, number: str, dies_at: str) -> None:
    """Give the table `db.t` this number of buckets, or write the batch of this number.

    Killed before or after a step of the rescale, at the event of this number, counted from 1; 0 lives.
    """
    table = Catalog(lake, bootstrap_servers=servers).load_table("db.t")
    if what == "write":
        write(table, int(number))
        return
    dying_rescale(table, int(number), dies_at=int(dies_at), die=lambda: os.kill(os.getpid(), signal.SIGKILL))
