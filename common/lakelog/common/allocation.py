"""Asks Arrow's allocator to keep freed memory for some seconds. To be imported before pyarrow; else it has no effect.

A compaction takes and frees the same hundreds of megabytes again and again. Arrow's allocator (mimalloc) gives what is
freed back to the system within 10 ms by default, and the system clears every page before it hands it out again: that is
a fifth of the time of a compaction, and more on virtual machines. A value that is set already stays.
"""

from __future__ import annotations

import os

PURGE_DELAY_KEY = "MIMALLOC_PURGE_DELAY"
PURGE_DELAY_MILLIS = "10000"

os.environ.setdefault(PURGE_DELAY_KEY, PURGE_DELAY_MILLIS)
