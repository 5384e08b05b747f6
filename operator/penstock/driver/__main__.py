"""`python3 -m penstock.driver`."""

import os
import sys

from penstock.driver.main import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: Py4J's threads and atexit handlers talk to a JVM that has ended.
    os._exit(code)
