"""The verbs of `lakelog.catalog.Table`, grouped by subject: each is thin and imports what it needs."""
