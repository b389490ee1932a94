"""SQL without Spark: queries in DuckDB's language, and statements as Spark and FLIP-188 spell them."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.sql.connection import SqlConnection, connect

__all__ = ["SqlConnection", "connect"]
