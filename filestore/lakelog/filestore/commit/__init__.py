"""Commits, each of one snapshot, with conflicts with other writers and unknown outcomes."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
