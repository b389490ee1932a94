"""Merge engines: they turn the rows of a key in sorted runs into one row, column by column."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
