"""The verbs of a table without a log, by what they are about: each imports what it needs when it is called."""
