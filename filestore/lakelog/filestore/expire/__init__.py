"""Expiry of snapshots, changelogs, partitions and writers, and the removal of orphan files."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
