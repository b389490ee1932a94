"""The contents of commits and records: transaction headers, the log state in a snapshot; ports to both stores."""

from lakelog.common.faces import face

__getattr__ = face(__name__, __file__)
