"""Reads of a log beyond its records: full changelogs, and ranges that are read from the files."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
