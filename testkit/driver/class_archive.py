"""Creates an archive of loaded classes, which makes each driver of a test start seconds faster.

The image has one too (images/spark/class_archive.py). A JVM that cannot use the archive starts
without it. The archive is created once for each class path and kept in the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.driver.jvm import ENV_JAVA_OPTIONS, Jvm, command, fast_start_options
from penstock.local.tools.class_archive import archive_for, list_option, write_command
from testkit.driver.in_process_driver import running
from testkit.file_lock import file_lock
from testkit.kafka.jars import connector_jars, kafka_jars
from testkit.streams.streams import RATE, stream

_HEAP = 768
_SECONDS = 1800  # a minute on a machine that does nothing else


def driver_environment(class_path: str) -> dict[str, str]:
    """The variable of the environment that gives a driver the JVM options of the image.

    `penstock run` then writes no archive of its own at its end.
    """
    return {ENV_JAVA_OPTIONS: " ".join(java_options(class_path))}


def command_environment() -> dict[str, str]:
    """That of a command of a laptop: with the jars and the archive of the kit, which are there."""
    jars = connector_jars()
    return {
        **os.environ,
        **driver_environment(f"{jars}/*"),
        "PENSTOCK_CONNECTOR_JARS": str(jars),
        "PENSTOCK_KAFKA_JARS": str(kafka_jars()),
    }


def java_options(class_path: str) -> list[str]:
    options = [f"-XX:SharedArchiveFile={archive(class_path)}", "-Xshare:auto"]
    return fast_start_options(options, _HEAP, cores=0)


def archive(class_path: str) -> Path:
    """The archive for this class path; creates it if it does not exist.

    The JVM refuses the archive of other jars, so size and time of the jars are in its name. More
    jars after those of the archive do not matter: it is that of the first entry.
    """
    class_path = class_path.split(os.pathsep)[0]
    path = archive_for(command(_HEAP, class_path, [])).path
    assert path is not None
    if not path.exists():  # else nobody waits while the archive of another checkout is created
        with file_lock("classes"):  # one of the workers creates it for all
            if not path.exists():
                _create(path, class_path)
    return path


def _create(path: Path, class_path: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    train = [sys.executable, "-m", "testkit.driver.class_archive", str(draft), class_path]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(train, check=True, capture_output=True, timeout=_SECONDS, env=found)
    draft.replace(path)


def main(path: str, class_path: str) -> None:
    """Runs a query for one epoch, and archives the classes that it has loaded."""
    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder, "classes")
        jvm = Jvm.launch(_HEAP, class_path, "127.0.0.1", [list_option(classes)])
        flow = stream(RATE, {"noop": {}}, interval="500ms")
        with running(flow, jvm, Path(folder)) as driver:
            driver.wait_ready()
        jvm.end()
        write = write_command(command(_HEAP, class_path, []), classes, Path(path))
        subprocess.run(write, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
