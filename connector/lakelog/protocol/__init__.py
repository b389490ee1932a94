"""The commit protocol that joins log and files, over ports and without Spark.

A micro-batch takes three steps: prepare files, decide in the log, index in a snapshot. The Kafka transaction of a
bucket is the decision; the header of its first record names the files that a snapshot needs. `task` is the part that
runs per bucket in a worker, `driver` the part that makes the snapshot, `stores` implements the ports for the real
stores.
"""
