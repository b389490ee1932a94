"""Avro: data files and the records of manifests."""
