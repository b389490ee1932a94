"""Batch statements on tables with a log: staging, preparing, logging and finishing them; and unfinished batches."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
