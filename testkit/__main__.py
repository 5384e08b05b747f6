"""`python -m testkit`: see README.md."""

import sys

from testkit.cli import main

sys.exit(main())
