"""Asks Arrow's allocator to keep freed memory for some seconds. Only effective if imported before pyarrow.

A compaction allocates and frees the same hundreds of megabytes again and again. Arrow's allocator (mimalloc) returns
freed memory to the system within 10 ms by default, and the system clears every page before it hands it out again. This
takes a fifth of the time of a compaction, and more on virtual machines. A setting that is already there is kept.
"""

from __future__ import annotations

import os

PURGE_DELAY_KEY = "MIMALLOC_PURGE_DELAY"
PURGE_DELAY_MILLIS = "10000"

os.environ.setdefault(PURGE_DELAY_KEY, PURGE_DELAY_MILLIS)
