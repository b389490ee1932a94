"""Databases and tables without Spark: create, open, read, write, alter and maintain them.

A table has files and may have a log. This module has the names that users import: the catalog and its tables, the
changes that `Table.alter` takes, and the errors.
"""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.common.faces import face, names_in

__getattr__ = face(__name__, __file__)
__dir__, __all__ = names_in(__file__)
