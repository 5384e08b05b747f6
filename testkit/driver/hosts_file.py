"""A name server that goes and comes back: the JVM resolves names from a file alone.

(jdk.net.hosts.file, in the JDK's networking properties: no other name service is asked.)
"""

from __future__ import annotations

import socket
from pathlib import Path


class HostsFile:
    """The names that a JVM started with `java_option` can resolve."""

    def __init__(self, path: Path, address: str = "127.0.0.1") -> None:
        """`address` is that of all names but the machine's own."""
        self._path = path
        self._address = address
        self.set()

    @property
    def java_option(self) -> str:
        return f"-Djdk.net.hosts.file={self._path}"

    def set(self, *names: str) -> None:
        """Makes these names known, besides the machine's own."""
        draft = self._path.with_suffix(".new")
        own = dict.fromkeys(("localhost", socket.gethostname()), "127.0.0.1")
        known = {**own, **dict.fromkeys(names, self._address)}
        draft.write_text("".join(f"{address} {name}\n" for name, address in known.items()))
        draft.replace(self._path)
