"""The commit of a micro-batch: the part of a task, the part of the driver, and the same for eventual logs."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
