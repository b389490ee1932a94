"""Tables in Spark's own SQL: a catalog of Spark whose interfaces are implemented in Python, in the driver."""
