"""Where a stream's checkpoints are, and the right to write them, which one driver has at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.storage import lock
from penstock.driver.checkpoint.storage.files import Checkpoints
from penstock.driver.checkpoint.storage.lease import CheckpointLease
from penstock.driver.checkpoint.storage.object_store import (
    ObjectStoreCheckpoints,
    hadoop_settings,
)
from penstock.driver.checkpoint.storage.volume import VolumeCheckpoints
from penstock.driver.environment import Environment
from penstock.driver.failures import Failure
from penstock.driver.jvm import Jvm, check_connector
from penstock.driver.kafka.security import check_secrets
from penstock.driver.logs import log_event
from penstock.driver.secret_values import values_of


def checkpoints_of(stream: ContinuousStream, environment: Environment, jvm: Jvm) -> Checkpoints:
    """A stream's checkpoints. Those in an object store are reached through the JVM."""
    return _in_store(stream, environment, jvm) or VolumeCheckpoints(environment)


def _in_store(
    stream: ContinuousStream, environment: Environment, jvm: Jvm
) -> ObjectStoreCheckpoints | None:
    store, metadata = stream.spec.checkpoint.object_store, stream.metadata
    if store is None:
        return None
    location = store.location_of(metadata.namespace, metadata.name)
    secret_conf = values_of(stream.spec.secret_spark_conf, environment.secrets)
    conf = {
        name.removeprefix("spark.hadoop."): value
        for name, value in (stream.spec.spark_conf | secret_conf).items()
        if name.startswith("spark.hadoop.")
    }
    settings = {**conf, **hadoop_settings(store, location, environment.secrets)}
    return ObjectStoreCheckpoints(jvm, location, settings, environment.pod_uid)


class WriteRight:
    """The right to write a stream's checkpoints: a lock on a volume, a lease in an object store."""

    def __init__(self, stream: ContinuousStream, environment: Environment) -> None:
        self._stream = stream
        self._environment = environment
        self._locks: list[int] = []
        self._lease: CheckpointLease | None = None

    def acquire_on_volume(self) -> Sequence[int]:
        """Descriptors for the JVM to inherit, which keep the lock for as long as it lives.

        None with an object store. Raises DriverError if another driver has the right.
        """
        if self._stream.spec.checkpoint.object_store is None:
            self._locks.append(lock.acquire(self._environment.checkpoint))
        return self._locks

    def acquire_in_store(
        self, jvm: Jvm, stop: threading.Event, waits: Callable[[Failure], None]
    ) -> bool:
        """Whether the driver may go on: False if `stop` was set before it had the right.

        `waits` gets what it waits for. Raises DriverError if another driver has the right.
        """
        checkpoints = _in_store(self._stream, self._environment, jvm)
        if checkpoints is None:
            return True

        def check() -> None:
            check_connector(jvm.gateway)
            check_secrets(self._stream.spec, self._environment.secrets)

        self._lease = CheckpointLease(checkpoints, check)
        return self._lease.acquire(stop, waits)

    def is_awaited(self) -> bool:
        """Whether another driver waits for it; False if that cannot be seen."""
        return bool(self._locks) and lock.is_awaited(self._environment.checkpoint)

    def release_in_store(self) -> None:
        """For a driver that writes nothing any more, and whose JVM still runs."""
        if self._lease is not None:
            try:
                self._lease.release()
            except Exception as error:  # of the store, or of a JVM that has died
                # The next driver waits until it was not renewed for long enough.
                log_event("the lease of the checkpoint was not released", cause=str(error))

    def release_on_volume(self) -> None:
        for descriptor in self._locks:
            lock.release(descriptor)
