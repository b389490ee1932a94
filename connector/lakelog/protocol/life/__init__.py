"""The life of a log: adding, rescaling, renewing and removing it, breaks by other engines, and new identities."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
