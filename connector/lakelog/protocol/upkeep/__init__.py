"""Checks, repairs, expiry and comparisons of a log."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
