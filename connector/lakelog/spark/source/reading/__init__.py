"""What batch reads and streams share: offsets, leases, partitions and their rows."""
