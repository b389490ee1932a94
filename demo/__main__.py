"""`python -m demo`, as scripts/demo runs it."""

import sys

from demo.main import main

sys.exit(main())
