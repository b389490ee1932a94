"""Tags and branches: named snapshots and named lines of snapshots."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
