"""Writes: rows are checked, assigned to buckets, buffered, sorted, spilled, and written to files."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
