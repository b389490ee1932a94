"""Spark Structured Streaming on lakelog tables: the only package that imports pyspark.

Each Python process that Spark starts for a query imports this package; a process that reads does not import the writing
parts.
"""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.common.faces import face, names_in
from lakelog.spark.session import name_worker_python, session_of_another_python

__getattr__ = face(__name__, __file__)
__dir__, __all__ = names_in(__file__)


name_worker_python()
_running = session_of_another_python()
if _running is not None:
    from lakelog.spark.data_source import register

    register(_running)
