"""From which fields the fields of a table are made: the lineage of one write, and its derivation from Spark's plan."""
