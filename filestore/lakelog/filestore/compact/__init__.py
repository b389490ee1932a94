"""Compaction: the choice of runs (pure), their merge, and changelogs."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
