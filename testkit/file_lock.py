"""Locks between the processes and threads of one machine."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from testkit.paths import cache_dir


@contextmanager
def file_lock(name: str, *, shared: bool = False) -> Iterator[None]:
    """Waits until no other process or thread holds the lock of this name, and holds it.

    Those that share a lock hold it side by side.
    """
    with (cache_dir("locks") / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
