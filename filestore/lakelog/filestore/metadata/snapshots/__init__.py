"""Snapshots, their line, and the files that name them: tags, changelogs, changes of the line."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
