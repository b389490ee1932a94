"""Manifests: which data files a snapshot added and deleted."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
