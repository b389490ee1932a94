"""`python -m lakelog.cli` is the command `lakelog`."""

from lakelog.cli.entry import main

main()
