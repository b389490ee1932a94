"""Index files: hash indexes of dynamic buckets and deletion vectors."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
