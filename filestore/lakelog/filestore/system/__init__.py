"""System tables: they show what a table is made of, with Paimon's columns."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
