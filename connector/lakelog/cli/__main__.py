"""`python -m lakelog.cli` is the command `lakelog`."""

from lakelog.cli.main import main

main()
