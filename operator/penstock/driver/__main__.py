"""`python3 -m penstock.driver`."""

import os
import signal
import sys

if __name__ == "__main__":
    # Until main sets its handlers: the imports take a second, and nothing needs a clean stop yet.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))

    import time

    from penstock.contract import naming
    from penstock.driver import process_restart
    from penstock.driver.environment import TERMINATION_LOG
    from penstock.driver.main import RESTART, main

    began = time.monotonic()
    code = main()
    if code == RESTART and naming.ENV_POD_NAME in os.environ:
        process_restart.restart(time.monotonic() - began, TERMINATION_LOG)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: Py4J's threads and atexit handlers talk to a JVM that has ended.
    os._exit(code)
