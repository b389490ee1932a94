"""Batch statements on tables with a log: staged, prepared, logged and finished; and what is left of unfinished ones."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
