"""`python3 -m penstock.driver`."""

import os
import signal
import sys

if __name__ == "__main__":
    # Until main sets its handlers: the imports take a second, and nothing needs a clean stop yet.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))

    from penstock.driver.main import main

    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: Py4J's threads and atexit handlers talk to a JVM that has ended.
    os._exit(code)
