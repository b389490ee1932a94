"""Access to the log of a table: Kafka servers, settings of clients, topics, and the place of the table."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
