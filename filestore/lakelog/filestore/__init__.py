"""Tables in the Apache Paimon format on a file system. Knows nothing of Spark, Kafka or lineage."""
