"""Files: local folders, object stores and HDFS behind one interface, names that stay inside a table, digests."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
