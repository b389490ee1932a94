"""The origin of the rows of a snapshot: snapshot properties that commits carry on."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
