"""Questions about lineage: up and down, tainted rows, consistent snapshots, starts of jobs."""
