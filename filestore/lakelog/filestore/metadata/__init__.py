"""The metadata of a table: snapshots, manifests, data files, changelogs, consumers, users, and times of commits."""
