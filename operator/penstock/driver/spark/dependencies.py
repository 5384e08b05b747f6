"""spec.dependencies as arguments of the JVM.

Spark itself only passes `spark.jars` on to executors. SparkSubmit also adds the classes to the
driver and resolves Maven coordinates (SparkSubmit.prepareSubmitEnvironment). So the JVM of a stream
with dependencies is started through SparkSubmit's class, which takes a little longer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import StreamSpec

_PREFIX = "spark.jars"


def submit_arguments(spec: StreamSpec, scratch: Path) -> list[str]:
    """SparkSubmit's arguments; empty if the stream has no dependencies."""
    wanted = spec.dependencies
    own = {name: value for name, value in spec.spark_conf.items() if name.startswith(_PREFIX)}
    if not (wanted.jars or wanted.packages or own):
        return []
    # Ivy's default folder is in the home directory, which a read-only container does not have.
    conf = {"spark.jars.ivy": str(scratch / "ivy"), **own}
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    if wanted.jars:
        arguments += ["--jars", ",".join(wanted.jars)]
    if wanted.packages:
        arguments += ["--packages", ",".join(wanted.packages)]
    return arguments


def resolved_jars(gateway: Any) -> dict[str, str]:
    """The jars that SparkSubmit resolved, for the executors; empty in a JVM without SparkSubmit."""
    jars = gateway.jvm.java.lang.System.getProperty("spark.jars")
    return {"spark.jars": str(jars)} if jars else {}
