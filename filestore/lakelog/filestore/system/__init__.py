"""System tables: what a table is made of, as tables with Paimon's columns."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
