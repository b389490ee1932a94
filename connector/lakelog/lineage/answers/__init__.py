"""Questions about lineage: upstream and downstream, tainted rows, consistent snapshots, starts of jobs."""
