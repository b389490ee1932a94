"""The bytes of Paimon's binary rows, hashes and bitmaps, and strings and casts of values as in Java."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
