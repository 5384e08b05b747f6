"""python -m e2e.cluster: see README.md."""

import sys

from e2e.cluster.cli import main

sys.exit(main())
