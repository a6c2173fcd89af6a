"""``python -m sensei`` is the same as ``koans``."""

import sys

from sensei.cli import main

sys.exit(main())
