"""What commits and records say: headers of transactions, the state of the log in a snapshot, ports to both stores."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
