"""Streams of changes without Spark: where batches end, what they consist of, and their rows.

A stream begins with the rows of a snapshot, or at once with changes, and goes on with the log, or with the snapshots of
a table without one. `planner` decides between two places what is read, `reading` reads it. Spark's source and
`Table.follow` are made of it.
"""
