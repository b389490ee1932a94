"""An example: the lineage of columns that other producers tell in OpenLineage events, taken into a warehouse."""
