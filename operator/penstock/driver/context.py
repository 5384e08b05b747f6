"""What the queries of one driver process share: an edited one takes the place of the one before."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver.checkpoint.storage.access import checkpoints_of
from penstock.driver.checkpoint.storage.files import Checkpoints
from penstock.driver.environment import Environment
from penstock.driver.jvm import Jvm
from penstock.driver.kubernetes.api import Api
from penstock.driver.kubernetes.followed_stream import FollowedStream
from penstock.driver.spark.application import SparkApplication


@dataclass(frozen=True)
class DriverContext:
    """Where the driver runs, whom it can ask, and what a query leaves to the next one."""

    environment: Environment
    jvm: Jvm
    checkpoints: Checkpoints
    """They stay where they are (api/v1alpha1/restarts_by_field.py)."""
    application: SparkApplication
    followed: FollowedStream
    """The stream as it is now; outside a pod nobody changes it."""
    api: Api | None = None
    """None outside a pod."""

    @classmethod
    def of(
        cls,
        stream: ContinuousStream,
        environment: Environment,
        jvm: Jvm,
        followed: FollowedStream | None = None,
        api: Api | None = None,
    ) -> DriverContext:
        """That of a driver which begins with this stream."""
        checkpoints = checkpoints_of(stream, environment, jvm)
        application = SparkApplication(stream, environment, jvm, api)
        return cls(environment, jvm, checkpoints, application, followed or FollowedStream(), api)
