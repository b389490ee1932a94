"""Data files: reading and writing rows, and the statistics of columns."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
