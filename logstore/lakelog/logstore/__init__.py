"""The log store: a table's changes in a Kafka topic, as debezium-json; the importer of confluent_kafka."""
