"""Taking changes that other programs write to Kafka into tables."""
