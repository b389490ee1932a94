"""The verbs of `lakelog.catalog.Table`, by what they are about: each is thin, and imports what it needs."""
