"""What a snapshot names: manifests, data files, changelogs, users; and the times of commits."""
