"""Changes of a schema, and of the number of buckets."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
