"""CRC-32 as in zlib, by the library isal if that is installed: it takes a tenth of the processor time."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
