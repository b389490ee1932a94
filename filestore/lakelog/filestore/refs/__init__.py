"""Tags and branches: snapshots and lines of snapshots that have names."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
