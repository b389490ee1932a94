"""Tables in the Apache Paimon format on a file system. Knows nothing of Spark, Kafka or lineage.

This package has the names that users import; `lakelog.catalog` has tables with databases and logs.
"""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
from lakelog.common.faces import face, names_in

__getattr__ = face(__name__, __file__)
__dir__, __all__ = names_in(__file__)
