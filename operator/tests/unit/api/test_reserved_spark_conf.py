"""sparkConf refuses the keys that the driver overrides, instead of ignoring them."""

from __future__ import annotations

from pathlib import Path

from penstock.api.reserved_spark_conf import RESERVED_CONFS, RESERVED_IN_OBJECT_STORE
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.contract.sizing import Size
from penstock.driver.environment import PodEnvironment
from penstock.driver.spark import session
from testkit.streams.every_field import WIDE

# Settings to which Penstock adds its own, such as those of the checkpoint's bucket.
_MERGED = (
    "spark.plugins",
    "spark.kubernetes.executor.label.",
    "spark.hadoop.fs.s3a.bucket.",
    "spark.hadoop.penstock.",
    # With secretOptions.
    "spark.penstock.",
    "spark.redaction.regex",
    "spark.ui.filters",
)


def test_every_conf_that_the_driver_overrides_is_reserved() -> None:
    """That is: every conf of the pod for which the user's value has no effect."""
    environment = PodEnvironment("p-0", "10.0.0.1", "payments", "hash", Path("/checkpoint"))
    forced = set()
    for spec in WIDE:
        stream = ContinuousStream.model_validate({"metadata": {"name": "p"}, "spec": spec})
        size = Size(partitions=2, executors=1, cores_per_executor=2, slots=2)
        ours = session.spark_conf(stream, environment, size)
        said = dict.fromkeys(ours, "7")
        overruled = stream.model_copy(
            update={"spec": stream.spec.model_copy(update={"spark_conf": said})}
        )
        result = session.spark_conf(overruled, environment, size)
        forced |= {name for name, value in result.items() if value != said.get(name)}
    reserved = {*RESERVED_CONFS, *RESERVED_IN_OBJECT_STORE}
    missing = {name for name in forced - reserved if not name.startswith(_MERGED)}
    assert missing == set()
