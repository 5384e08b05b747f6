"""`python3 -m testkit.tools`: compiles what the tests on this machine run.

It imports only the standard library, so that Go compiles while pip downloads (`make test`).
"""

import sys

from testkit.errors import ClusterError
from testkit.tools.build import tools
from testkit.tools.pins import LOCAL_TOOLS

try:
    tools(*LOCAL_TOOLS)
except ClusterError as error:
    # What is missing may be skipped: `python -m testkit prepare` decides.
    print(f"not compiled yet: {error}", file=sys.stderr)
