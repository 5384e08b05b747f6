"""What the query needs beyond the image, handed to the JVM when it starts.

Spark itself only passes `spark.jars` on to executors; that the driver has the classes too, and that
Maven coordinates become jars, is spark-submit's work (SparkSubmit.prepareSubmitEnvironment). So a
stream with dependencies has its JVM started through SparkSubmit's class, which takes a little
longer, and others do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.api.v1alpha1 import StreamSpec

_PREFIX = "spark.jars"


def submit_arguments(spec: StreamSpec, scratch: Path) -> list[str]:
    """SparkSubmit's arguments; none if it is not needed."""
    wanted = spec.dependencies
    own = {name: value for name, value in spec.spark_conf.items() if name.startswith(_PREFIX)}
    if not (wanted.jars or wanted.packages or own):
        return []
    # Ivy's folder is in the home directory otherwise, which a read-only container does not have.
    conf = {"spark.jars.ivy": str(scratch / "ivy"), **own}
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    if wanted.jars:
        arguments += ["--jars", ",".join(wanted.jars)]
    if wanted.packages:
        arguments += ["--packages", ",".join(wanted.packages)]
    return arguments


def resolved_jars(gateway: Any) -> dict[str, str]:
    """What SparkSubmit made of them, for the executors; nothing in a JVM that did without it."""
    jars = gateway.jvm.java.lang.System.getProperty("spark.jars")
    return {"spark.jars": str(jars)} if jars else {}
