"""SQL without Spark: the statements of Spark's SQL and of FLIP-188, run by the verbs of tables and by DuckDB."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.sql.connection import SqlConnection, connect

__all__ = ["SqlConnection", "connect"]
