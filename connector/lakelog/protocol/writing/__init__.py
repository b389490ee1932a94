"""The commit of a micro-batch: the task's part, the driver's part, and the same for eventual logs."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
