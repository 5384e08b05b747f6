"""The source as the supervisor sees it: how many partitions there are, and where they end."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from penstock.driver.jvm import Jvm
from penstock.driver.kafka import Admin, Offsets, Partitions
from penstock.driver.logs import say
from penstock.driver.sources import stated_partitions
from penstock.driver.throwable import understand
from penstock.stream.spec import KafkaSource, StreamSpec

# Spark itself looks at each epoch, and a query that finds a new partition commits nothing until
# there is a core for it: executors should not be asked for much later.
LOOK_EVERY = 10.0


class SourceWatch(Protocol):
    """What every source can be asked."""

    @property
    def partitions(self) -> int | None:
        """Partitions as last seen; None before the first look."""

    @property
    def newest(self) -> Offsets | None:
        """Where the partitions ended when last looked at; None if the source has no such thing."""

    def look(self) -> None:
        """Looks now; raises what the source says."""

    def newest_now(self) -> Offsets:
        """Where the partitions end at this moment."""

    def forget(self) -> None:
        """Forgets what was seen."""


class FixedSource:
    """A source whose parallelism the spec states."""

    newest: Offsets | None = None

    def __init__(self, partitions: int) -> None:
        self._stated = partitions
        self.partitions: int | None = None

    def look(self) -> None:
        """What the spec states."""
        self.partitions = self._stated

    def newest_now(self) -> Offsets:
        """It has no offsets that anyone could begin at."""
        return {}

    def forget(self) -> None:
        """Until the next look."""
        self.partitions = None


class KafkaWatch:
    """Asks Kafka at a slow beat, from a thread of its own: a broker that is away delays nobody."""

    def __init__(self, jvm: Jvm, source: KafkaSource, secrets: Path) -> None:
        self._jvm = jvm
        self._source = source
        self._secrets = secrets
        self._admin: Admin | None = None
        self._seen: Partitions | None = None
        self._newest: Offsets | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def partitions(self) -> int | None:
        """As last seen."""
        seen = self._seen
        return None if seen is None else seen.total

    @property
    def newest(self) -> Offsets | None:
        """As last seen."""
        return self._newest

    def look(self) -> None:
        """Asks for the partitions now, and from then on at a slow beat."""
        with self._lock, self._client() as admin:
            self._seen = admin.partitions()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_looking, name="kafka", daemon=True)
            self._thread.start()

    def newest_now(self) -> Offsets:
        """Asks for the ends now."""
        with self._lock, self._client() as admin:
            assert self._seen is not None
            return admin.newest(self._seen)

    def forget(self) -> None:
        """The thread learns nothing either until the next look."""
        with self._lock:
            self._seen = None
            self._newest = None

    def _keep_looking(self) -> None:
        was_well = True
        while self._jvm.exit_code is None:
            try:
                self._refresh()
            except Exception as error:  # a broker that is away is no reason to stop asking
                if was_well and self._jvm.exit_code is None:
                    trouble = understand(error)
                    say(
                        "Kafka did not answer; what it said last is used meanwhile",
                        logging.WARNING,
                        reason=trouble.reason,
                        cause=trouble.message,
                    )
                was_well = False
            else:
                was_well = True
            time.sleep(LOOK_EVERY)

    def _refresh(self) -> None:
        with self._lock:
            if self._seen is None:
                return
            with self._client() as admin:
                self._seen = admin.partitions()
                self._newest = admin.newest(self._seen)

    @contextlib.contextmanager
    def _client(self) -> Iterator[Admin]:
        """The client; after a failure a new one, which reads its credentials anew."""
        if self._admin is None:
            self._admin = Admin(self._jvm.gateway, self._source, self._secrets)
        try:
            yield self._admin
        except Exception:
            failed, self._admin = self._admin, None
            if self._jvm.exit_code is None:
                with contextlib.suppress(Exception):  # the first failure is the one to tell
                    failed.close()
            raise


def open_source(jvm: Jvm, spec: StreamSpec, secrets: Path) -> SourceWatch:
    """The watch that fits the spec's source."""
    if spec.source.kafka is not None:
        return KafkaWatch(jvm, spec.source.kafka, secrets)
    return FixedSource(stated_partitions(spec.source, spec.spark_conf))
