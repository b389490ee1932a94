"""Spark's analyzed plan as JSON, walked without Spark: what each of its columns is made from."""
