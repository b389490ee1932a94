"""The generations of a log: added, rescaled, renewed, removed, broken by other engines, given a new identity."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
