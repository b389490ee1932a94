"""Spark Structured Streaming on lakelog tables: the importer of pyspark."""

from lakelog.spark.worker_python import name_worker_python

name_worker_python()
