"""The log of a table as it is reached: Kafka servers, settings of clients, topics, and the place of the table."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
