"""Tables in the Apache Paimon format on a file system. Knows nothing of Spark, Kafka or lineage."""

import lakelog.common.allocation  # noqa: F401  # before pyarrow
