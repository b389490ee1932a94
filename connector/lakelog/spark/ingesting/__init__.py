"""Changes that others write to Kafka, taken into tables."""
