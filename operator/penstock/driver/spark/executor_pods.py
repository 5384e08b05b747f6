"""Removes the executors of an earlier driver process, and writes the template of new ones."""

from __future__ import annotations

import concurrent.futures
import contextlib
import secrets
import time
from collections.abc import Iterator
from http import HTTPStatus

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster.rest_api import ApiError
from penstock.contract.sizing import may_run_in_driver
from penstock.driver.environment import Environment, PodEnvironment
from penstock.driver.failures import API_SERVER_UNREACHABLE, DriverError, Failure
from penstock.driver.kubernetes import rpc_secret
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.orphan_guard import unauthorized
from penstock.driver.logs import log_event
from penstock.driver.spark.executor_template import executor_template, write_executor_template

# The API server removes a pod at once whose grace period is 0.
_FORCED_SECONDS = 5.0
# An executor that is only slow to start costs a few requests.
_FIRST_LOOK_SECONDS = 5.0
_NEXT_LOOK_SECONDS = 30.0


class ClusterPreparation:
    """Removes the executors of an earlier driver process, and prepares what new ones need.

    It starts at once, in a thread, because it takes about as long as the start of the JVM.
    """

    def __init__(
        self,
        stream: ContinuousStream,
        environment: Environment,
        api: Api | None = None,
    ) -> None:
        self._stream = stream
        self._environment = environment
        self._api = api
        self._suffix = ""
        self._looked_at = time.monotonic()
        """When all executors were there, or the last look after what some lack."""
        self._looks = 0
        """Looks since all of them were there."""
        self._pod_uid = self._rpc_secret = ""
        self._keeps_state: bool | None = None
        """Whether executors of the newest template write state; None before the first."""
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "cluster")
        self._started: concurrent.futures.Future[None] | None = self._pool.submit(
            self._prepare, with_executors=not may_run_in_driver(stream.spec)
        )

    def finish(self, *, with_executors: bool) -> None:
        """Waits for the preparation, and raises its error. A further call prepares again.

        `with_executors`: whether there are to be new ones, which need a Secret.
        """
        started, self._started = self._started, None
        if started is None or (with_executors and not self._rpc_secret):
            started = self._pool.submit(self._prepare, with_executors=with_executors)
        started.result()

    def write_template(self, *, keeps_state: bool) -> None:
        """Writes the template of the executors that are requested next, after `finish`."""
        self._keeps_state = keeps_state
        if isinstance(self._environment, PodEnvironment):
            write_executor_template(
                self._environment.executor_template,
                executor_template(
                    self._environment,
                    self._pod_uid,
                    self._stream,
                    self._rpc_secret,
                    keeps_state=keeps_state,
                ),
            )

    def look_after(self, *, lacks_executors: bool) -> None:
        """Creates the Secret of the executors again, in case that some lack it.

        The driver may not read Secrets, so it only notices that executors are missing. It may be
        gone: they wait for it. Or somebody has made it again with another content, and they fail:
        then the next ones get it under another name.
        """
        now = time.monotonic()
        if not lacks_executors:
            self._looked_at, self._looks = now, 0
            return
        due = _FIRST_LOOK_SECONDS if self._looks == 0 else _NEXT_LOOK_SECONDS
        if self._api is None or now - self._looked_at < due:
            return
        self._looked_at, self._looks = now, self._looks + 1
        if self._looks == 2:
            self._suffix = f"-{secrets.token_hex(4)}"
        self._pool.submit(self._restore_secret)

    def _restore_secret(self) -> None:
        with contextlib.suppress(ApiError):  # there will be another look
            self._prepare_secret()
            if self._keeps_state is not None:
                self.write_template(keeps_state=self._keeps_state)

    def _prepare_secret(self) -> None:
        """Creates the Secret unless it is there."""
        assert self._api is not None
        assert isinstance(self._environment, PodEnvironment)
        pod_name, name = self._environment.pod_name, self._stream.metadata.name
        self._pod_uid, file = self._api.pod(pod_name).uid, self._environment.rpc_secret
        self._rpc_secret = rpc_secret.prepare(
            file, self._api, name, pod_name, self._pod_uid, self._suffix
        )

    def _prepare(self, *, with_executors: bool) -> None:
        if self._api is None or not isinstance(self._environment, PodEnvironment):
            return
        with api_errors():
            if with_executors:
                self._prepare_secret()
            removed = remove_executors(self._api, self._stream.metadata.name)
        if removed:
            log_event("executors of an earlier driver process were removed", pods=removed)


@contextlib.contextmanager
def api_errors() -> Iterator[None]:
    """Turns an error of the Kubernetes API into a transient failure that says what is waited for.

    The driver tries again by itself: an exit would only add the kubelet's delay.
    """
    try:
        yield
    except ApiError as error:
        if error.code == 0:
            raise DriverError(_UNREACHABLE) from error
        if error.code == HTTPStatus.UNAUTHORIZED:
            raise DriverError(unauthorized("the query needs executors")) from error
        raise DriverError(
            Failure(
                "ApiServerRefused",
                f"The Kubernetes API server answered {error.code} {error.reason} when the "
                "driver asked for its executors' pods. The driver tries again; if it lasts, "
                "check the rights of the driver's ServiceAccount (docs/rbac.md).",
            )
        ) from error
    except ExecutorsNotGoneError as error:
        raise DriverError(
            Failure("ExecutorsNotGone", f"{error}. The driver tries again. Check their nodes.")
        ) from error


_UNREACHABLE = Failure(
    API_SERVER_UNREACHABLE,
    "The Kubernetes API server does not answer. The driver waits for it: without it there are no "
    "executors, and nobody knows whether those of an earlier driver still run.",
)


class ExecutorsNotGoneError(TimeoutError):
    """The executors of an earlier driver process still exist."""


def remove_executors(api: Api, stream: str, timeout: float = 40.0) -> list[str]:
    """Deletes the executors of an earlier driver process and waits until they are gone.

    Nothing else would delete them: their owner is this pod, which outlives its containers. A new
    executor takes the name of an old one. What is left after `timeout` seconds is on a node that
    is lost, and is removed by force: an executor without its driver has ended long before
    (spark.executor.heartbeat.maxFailures). Raises ExecutorsNotGoneError if that does not help.
    """
    removed = api.executors(stream)
    for pod in removed:
        api.delete(pod, grace_seconds=1)
    if removed and not _are_gone(api, stream, timeout):
        for pod in api.executors(stream):
            log_event("an executor's node does not confirm its end; it is removed", 30, pod=pod)
            api.delete(pod, grace_seconds=0)
        if not _are_gone(api, stream, _FORCED_SECONDS):
            raise ExecutorsNotGoneError(
                f"Executor pods of an earlier driver process still exist after {timeout:.0f} s"
            )
    return removed


def _are_gone(api: Api, stream: str, seconds: float) -> bool:
    """Whether there are no executors, within this time."""
    deadline = time.monotonic() + seconds
    while api.executors(stream):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True
