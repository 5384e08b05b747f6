"""An archive of loaded classes for the drivers that tests start: seconds less for each of them.

As in the image (images/spark/train.py), and as there a JVM that cannot use it starts without. It is
made once for a class path and kept in the cache.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.driver.jvm import Jvm, command, fast_start_options
from testkit.driver.in_process_driver import running
from testkit.paths import cache_dir
from testkit.streams.streams import RATE, stream

_HEAP = 768


def java_options(class_path: str) -> list[str]:
    """Options for a driver's JVM: those of the image."""
    return fast_start_options([f"-XX:SharedArchiveFile={archive(class_path)}", "-Xshare:auto"])


def archive(class_path: str) -> Path:
    """The archive for this class path, made if it is not there yet."""
    said = "\0".join(command(_HEAP, class_path, []))
    path = cache_dir("classes") / f"{hashlib.sha256(said.encode()).hexdigest()[:16]}.jsa"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        train = [sys.executable, "-m", "testkit.driver.class_archive", str(draft), class_path]
        found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(train, check=True, capture_output=True, timeout=300, env=found)
        draft.replace(path)
    return path


def main(path: str, class_path: str) -> None:
    """Runs a query for an epoch; the JVM writes the archive when it ends in good order."""
    jvm = Jvm.launch(_HEAP, class_path, "127.0.0.1", [f"-XX:ArchiveClassesAtExit={path}"])
    with tempfile.TemporaryDirectory() as folder:
        flow = stream(RATE, {"noop": {}}, interval="500ms")
        with running(flow, jvm, Path(folder)) as driver:
            driver.wait_ready()
        jvm.end(120)


if __name__ == "__main__":
    main(*sys.argv[1:])
