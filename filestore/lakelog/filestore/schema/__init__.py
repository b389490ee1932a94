"""The schema of a table, its rules, the names of its files, and reading rows of older schemas."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
