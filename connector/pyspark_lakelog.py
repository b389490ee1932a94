"""Spark's entry point: it finds modules named pyspark_* by itself, and the format in DefaultSource."""

from lakelog.spark.data_source import LakelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
