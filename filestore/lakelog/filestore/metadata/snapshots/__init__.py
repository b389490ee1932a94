"""Snapshots, their line, and the files that name them: tags, changelogs, changes of the line."""
