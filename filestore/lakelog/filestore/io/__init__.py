"""Files: local folders, object stores and HDFS behind one interface, names that stay inside a table, digests."""
