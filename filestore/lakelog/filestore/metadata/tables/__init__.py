"""A table as every verb needs it, and the checks of its folder."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
