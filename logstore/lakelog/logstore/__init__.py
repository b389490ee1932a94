"""The log store: a table's changes in a Kafka topic, as debezium-json. The only part that imports confluent_kafka."""
