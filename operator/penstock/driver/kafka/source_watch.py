"""The source as the supervisor sees it: how many partitions there are, and where they end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from penstock.api.v1alpha1 import KafkaSource, StreamSpec
from penstock.contract.sizing import stated_partitions
from penstock.driver.failures import TOPIC_MISSING, Failure
from penstock.driver.java_exceptions import classify_exception
from penstock.driver.jvm import Jvm
from penstock.driver.kafka.admin import Admin, partitions_of
from penstock.driver.kafka.data_loss import Held
from penstock.driver.kafka.offsets import Offsets, Partitions

# Spark itself looks at each epoch, and a query that finds a new partition commits nothing until
# there is a core for it: executors should not be asked for much later.
LOOK_EVERY = 10.0
# A broker that has just started does not know every topic yet: that one is gone, two looks say.
_LOOK_AGAIN = 2.0
TOPIC_REMADE = "TopicRemade"


class SourceWatch(Protocol):
    """What every source can be asked."""

    @property
    def partitions(self) -> int | None:
        """Partitions as last seen; None before the first look."""

    @property
    def numbers(self) -> Mapping[str, Sequence[int]] | None:
        """The same by topic; None also if the source has no such thing."""

    @property
    def newest(self) -> Offsets | None:
        """Where the partitions ended when last looked at; None if the source has no such thing."""

    @property
    def failure(self) -> Failure | None:
        """What must end a query that reads it; Spark itself would be silent."""

    @property
    def away(self) -> Failure | None:
        """Why it does not answer. A query goes on by itself when it does again, if no sooner."""

    def look(self) -> None:
        """Looks now; raises what the source says."""

    def held(self) -> Held | None:
        """What it holds at this moment; None if it has no offsets."""

    def newest_now(self) -> Offsets:
        """Where the partitions end at this moment."""

    def forget(self) -> None:
        """Forgets what was seen."""


class FixedSource:
    """A source whose parallelism the spec states."""

    numbers: Mapping[str, Sequence[int]] | None = None
    newest: Offsets | None = None
    failure: Failure | None = None
    away: Failure | None = None

    def __init__(self, partitions: int) -> None:
        self._stated = partitions
        self.partitions: int | None = None

    def look(self) -> None:
        """What the spec states."""
        self.partitions = self._stated

    def held(self) -> Held | None:
        """It has no offsets that could be lost."""
        return None

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
        self._failure: Failure | None = None
        self._away: Failure | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def partitions(self) -> int | None:
        """As last seen."""
        seen = self._seen
        return None if seen is None else seen.total

    @property
    def numbers(self) -> Mapping[str, Sequence[int]] | None:
        """As last seen."""
        seen = self._seen
        return None if seen is None else seen.numbers

    @property
    def newest(self) -> Offsets | None:
        """As last seen."""
        return self._newest

    @property
    def failure(self) -> Failure | None:
        """That a topic is gone, said by two looks on end, or is another one than it was."""
        return self._failure

    @property
    def away(self) -> Failure | None:
        """Why the last look failed, for any other reason."""
        return self._away

    def look(self) -> None:
        """Asks for the partitions now, and from then on at a slow beat."""
        with self._lock, self._client() as admin:
            self._all_well(partitions_of(admin, self._source))
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_looking, name="kafka", daemon=True)
            self._thread.start()

    def newest_now(self) -> Offsets:
        """Asks for the ends now."""
        with self._lock, self._client() as admin:
            assert self._seen is not None
            return admin.newest(self._seen)

    def held(self) -> Held:
        """Asks for ids and offsets now."""
        with self._lock, self._client() as admin:
            seen = partitions_of(admin, self._source)
            held = Held(seen.ids, admin.earliest(seen), admin.newest(seen))
            self._all_well(seen)
            return held

    def forget(self) -> None:
        """The thread learns nothing either until the next look."""
        with self._lock:
            self._seen = self._newest = self._failure = self._away = None

    def _keep_looking(self) -> None:
        before: Failure | None = None
        while self._jvm.exit_code is None:
            failure: Failure | None = None
            try:
                self._refresh()
            except Exception as error:  # a broker that is away is no reason to stop asking
                failure = classify_exception(error)
                self._note(failure, again=before is not None and before.reason == failure.reason)
            before = failure
            time.sleep(_LOOK_AGAIN if failure is not None else LOOK_EVERY)

    def _refresh(self) -> None:
        with self._lock:
            before = self._seen
            if before is None:
                return
            with self._client() as admin:
                seen = partitions_of(admin, self._source)
                self._newest = admin.newest(seen)
            remade = [t for t, id_ in before.ids.items() if seen.ids.get(t, id_) != id_]
            self._all_well(seen)
            if remade:
                self._failure = _remade(remade)

    def _all_well(self, seen: Partitions) -> None:
        self._seen, self._failure, self._away = seen, None, None

    def _note(self, failure: Failure, again: bool) -> None:
        if failure.reason != TOPIC_MISSING:
            self._away = failure
        elif again:
            self._failure = failure

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


def _remade(topics: list[str]) -> Failure:
    """Passing: the next start finds out what it means for the checkpoint."""
    return Failure(
        TOPIC_REMADE,
        f"the topic {topics[0]} was deleted and made again while the query was reading it",
    )


def open_source(jvm: Jvm, spec: StreamSpec, secrets: Path) -> SourceWatch:
    """The watch that fits the spec's source."""
    if spec.source.kafka is not None:
        return KafkaWatch(jvm, spec.source.kafka, secrets)
    return FixedSource(stated_partitions(spec.source, spec.spark_conf))
