"""The ports of the protocol, implemented for the real stores: the files of a table and its topic."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
