"""The spec as a whole."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from penstock.api.mode_rules import MODE_RULES
from penstock.api.reserved_spark_conf import NO_OWNED_CONF
from penstock.api.v1alpha1.base import ObjectName, Options, SpecObject
from penstock.api.v1alpha1.checkpoint import Checkpoint
from penstock.api.v1alpha1.pods import Driver, Executor
from penstock.api.v1alpha1.restart import Restart
from penstock.api.v1alpha1.sinks import Sink
from penstock.api.v1alpha1.sources import Source
from penstock.api.v1alpha1.transforms import Transform
from penstock.api.v1alpha1.triggers import Trigger


class ImagePullSecret(SpecObject):
    """A Secret with the credentials of an image registry."""

    name: ObjectName = Field(description="Name of the Secret.")


class Dependencies(SpecObject):
    """What the query needs beyond the image."""

    jars: Annotated[
        list[
            Annotated[
                str,
                StringConstraints(
                    pattern=r"^(https?|local|file|s3a|hdfs|gs|abfss?)://.+$", max_length=2048
                ),
            ]
        ],
        Field(max_length=64),
    ] = Field(
        [],
        description="Jars by URL; local:///path is a file of the image.",
        examples=[["local:///opt/jars/netcat.jar"]],
    )
    packages: Annotated[
        list[
            Annotated[
                str,
                StringConstraints(
                    pattern=r"^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$", max_length=512
                ),
            ]
        ],
        Field(max_length=64),
    ] = Field(
        [],
        description="Maven coordinates, group:artifact:version, fetched at each start: an image "
        "that holds them starts faster and without the repository.",
        examples=[["org.apache.spark:spark-avro_2.13:4.2.0"]],
    )


class StreamSpec(SpecObject):
    """A continuous Spark query: a source, a transform, a sink, and how it is kept running."""

    rules = MODE_RULES
    image: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="Image of driver and executors. Default: the one the operator was installed "
        "with.",
    )
    image_pull_secrets: Annotated[list[ImagePullSecret], Field(max_length=16)] = Field(
        [], description="Secrets with the credentials of the image's registry."
    )
    service_account_name: ObjectName | None = Field(
        None,
        description="A service account of your own; Penstock binds it to the role that drivers "
        "need. Default: one made for the stream.",
    )
    source: Source = Field(description="Where the records come from: exactly one source.")
    transform: Transform = Field(Transform(), description="What happens to each record.")
    sink: Sink = Field(description="Where the records go: exactly one sink.")
    trigger: Trigger = Field(description="How the query runs: exactly one trigger.")
    output_mode: Literal["append", "update", "complete"] | None = Field(
        None,
        description="Which rows are written: append the new ones, update the changed ones, "
        "complete all of them. Default: update in real-time mode, else append.",
    )
    checkpoint: Checkpoint = Field(Checkpoint(), description="Where progress is kept.")
    restart: Restart = Field(Restart(), description="How failures are met.")
    driver: Driver = Field(Driver(), description="The driver's pod.")
    executor: Executor = Field(Executor(), description="The executors' pods.")
    dependencies: Dependencies = Field(
        Dependencies(), description="What the query needs beyond the image."
    )
    spark_conf: Options = Field(
        {},
        description="Further Spark configuration. What Penstock sets itself is refused.",
        examples=[{"spark.sql.session.timeZone": "UTC"}],
        json_schema_extra={"x-kubernetes-validations": [NO_OWNED_CONF.as_schema()]},
    )

    @field_validator("spark_conf")
    @classmethod
    def _no_owned_conf(cls, conf: dict[str, str]) -> dict[str, str]:
        refusal = NO_OWNED_CONF.refusal(conf)
        if refusal is not None:
            raise ValueError(refusal)
        return conf
