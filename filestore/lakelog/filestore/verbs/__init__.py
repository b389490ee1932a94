"""The verbs of a table without a log, by topic: each imports what it needs when it is called."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
