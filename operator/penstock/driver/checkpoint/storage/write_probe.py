"""Whether Spark could write its logs in a checkpoint now.

The continuous engine swallows the error of a commit that fails, and writes to the sink without
committing any more (measured, Spark 4.2): only an attempt of our own shows why.
"""

from __future__ import annotations

import errno
import threading
from concurrent.futures import Future
from functools import partial

from penstock.driver.calls_with_deadline import complete
from penstock.driver.checkpoint.storage.files import CheckpointFiles
from penstock.driver.failures import DriverError, Failure

LOGS = ("commits", "offsets")
# Spark takes only whole numbers for files of a log (HDFSMetadataLog.batchFilesFilter), so it sees
# neither this file nor its draft. What a crash leaves of them the next probe removes.
_NAME = ".penstock-probe"
# A volume that takes longer for a few bytes does not answer.
_ANSWER_SECONDS = 5.0


class WriteProbe:
    """Writes to the logs of a checkpoint, in a thread: a write may block for as long as it likes.

    Not for use by two threads.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._unanswered: Future[None] | None = None
        """A probe that has not returned: there is never a second one beside it."""

    def check(self, seconds: float = _ANSWER_SECONDS) -> None:
        """Returns if each log can be written.

        Raises CheckpointFull, or CheckpointNotAccessible with the error of the operating system,
        after `seconds` at most.
        """
        probe, self._unanswered = self._unanswered or self._start(), None
        try:
            probe.result(seconds)
        except TimeoutError:
            if probe.done():  # the operating system's own
                raise
            self._unanswered = probe
            with self._files.errors():
                why = f"a write was not answered within {seconds:.0f} s"
                raise OSError(errno.ETIMEDOUT, why) from None

    def failure(self) -> Failure | None:
        """Why a query that has failed could not write its checkpoint.

        Spark passes on whatever its file manager throws: a FileNotFoundException for a read-only
        folder, a failed task for state (measured, Spark 4.2).
        """
        try:
            self.check()
        except DriverError as error:
            return error.failure
        return None

    def _start(self) -> Future[None]:
        probe: Future[None] = Future()
        run = partial(complete, probe, self._write)
        threading.Thread(target=run, name="write-probe", daemon=True).start()
        return probe

    def _write(self) -> None:
        with self._files.errors():
            made = self._files.folders("")  # Spark makes one with its first file
        for log in LOGS:
            with self._files.errors(log):
                if log in made:
                    self._files.check_writable(f"{log}/{_NAME}")
