"""The spec as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from penstock.api.predicates import (
    Predicate,
    ValidationRule,
    cel_unchanged,
    in_cel_only,
    rules_of_scalar,
)
from penstock.api.reserved_spark_conf import (
    NO_EXECUTORS_RULE,
    NO_RESERVED_CONF,
    RESERVED_IN_OBJECT_STORE_RULE,
    SECRET_CONF_RULES,
    STATE_PARTITIONS_RULE,
)
from penstock.api.v1alpha1.base import (
    KeyRef,
    ObjectName,
    Options,
    PythonFunction,
    SecretOptions,
    SpecObject,
    text_like,
)
from penstock.api.v1alpha1.checkpoint import GENERATION_RULES, UPDATE_RULES, Checkpoint
from penstock.api.v1alpha1.driver_and_executor import Driver, Executor
from penstock.api.v1alpha1.kafka_connection import (
    CONNECTION_RULES,
    KafkaConnection,
    with_connection,
)
from penstock.api.v1alpha1.mode_rules import MODE_RULES
from penstock.api.v1alpha1.restart import Restart
from penstock.api.v1alpha1.rollout import RolloutPolicy
from penstock.api.v1alpha1.sinks import Sink
from penstock.api.v1alpha1.sources import DEAD_LETTER_RULES, Source
from penstock.api.v1alpha1.transforms import Transform
from penstock.api.v1alpha1.triggers import Trigger


class ImagePullSecret(SpecObject):
    """A Secret with the credentials of an image registry."""

    name: ObjectName = Field(description="Name of the Secret.")


_NOT_DEFAULT = ValidationRule(
    Predicate("self != 'default'", lambda name: name != "default"),
    "default is the account of every pod that names none: name another",
)


# Its rights on pods are meant for the driver only.
DriverServiceAccount = Annotated[
    ObjectName,
    AfterValidator(_NOT_DEFAULT.check),
    Field(json_schema_extra=rules_of_scalar(_NOT_DEFAULT)),
]


# As of a Job's `managedBy` and a Service's `loadBalancerClass`: two operators could otherwise both
# take a stream for their own for a moment.
_SAME_CLASS = ValidationRule(
    in_cel_only(cel_unchanged("className")),
    "className cannot be changed, added or removed: delete the stream and apply it again; "
    "it continues from a retained checkpoint",
)


class Dependencies(SpecObject):
    """Jars that the query needs and the image does not have."""

    jars: Annotated[
        list[
            Annotated[
                str,
                text_like(
                    r"^(https?|local|file|s3a|hdfs|gs|abfss?)://.+$",
                    "takes a URL: write for example local:///opt/jars/netcat.jar",
                    max_length=2048,
                ),
            ]
        ],
        Field(max_length=64),
    ] = Field(
        [],
        description="Jars by URL. local:///path is a file in the image.",
        examples=[["local:///opt/jars/netcat.jar"]],
    )
    packages: Annotated[
        list[
            Annotated[
                str,
                text_like(
                    r"^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$",
                    "takes group:artifact:version",
                    max_length=512,
                ),
            ]
        ],
        Field(max_length=64),
    ] = Field(
        [],
        description="Maven coordinates, group:artifact:version. They are fetched at each start. An "
        "image that holds the jars starts faster and does not need the repository.",
        examples=[["org.apache.spark:spark-avro_2.13:4.2.0"]],
    )


LogLevel = Literal["ERROR", "WARN", "INFO", "DEBUG"]


class Observability(SpecObject):
    """What Spark itself shows of the query, beyond metrics."""

    ui: bool = Field(
        False,
        description="Whether Spark's web UI runs: on port 4040 of the driver's pod, for `kubectl "
        "port-forward` only. Default: false.",
    )
    event_log: (
        Annotated[
            str,
            text_like(
                r"^(file|s3a|hdfs|gs|abfss?)://.+$",
                "takes the URL of a folder: write for example s3a://logs/spark",
                max_length=1024,
            ),
        ]
        | None
    ) = Field(
        None,
        description="An existing folder for Spark's event log, which its history server reads. The "
        "log grows without end. Default: no event log.",
        examples=["s3a://logs/spark"],
    )
    log_level: LogLevel | None = Field(
        None,
        description="Of Spark and Kafka's clients. INFO and DEBUG may show records. "
        "Default: spark.log.level, or WARN.",
    )


# Use `model_validate`: a parsed spec holds a complete Kafka connection in `source.kafka` and
# `sink.kafka`, whether it is their own or that of spec.kafka.
class StreamSpec(SpecObject):
    """A Spark streaming query. A change replaces the driver, unless the field says otherwise."""

    rules = (
        *MODE_RULES,
        *CONNECTION_RULES,
        *UPDATE_RULES,
        *GENERATION_RULES,
        RESERVED_IN_OBJECT_STORE_RULE,
        STATE_PARTITIONS_RULE,
        *SECRET_CONF_RULES,
        NO_EXECUTORS_RULE,
        *DEAD_LETTER_RULES,
        _SAME_CLASS,
    )
    class_name: (
        Annotated[
            str,
            text_like(
                r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "takes a-z, 0-9 and '-', and begins and ends with a letter or a digit",
                max_length=63,
            ),
        ]
        | None
    ) = Field(
        None,
        description="Which operator acts on the stream: the one of this class. "
        "Default: the operator without a class.",
    )
    suspend: bool = Field(
        False,
        description="Whether the stream is stopped. Its query commits before it stops, and later "
        "continues from its checkpoint. Default: false.",
    )
    # Not refused with other triggers: a rollback puts the newest live fields on an earlier spec.
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="How long the driver stays after `trigger.availableNow` has read everything. "
        "A new `restartedAt` runs it again. Default: for ever.",
        examples=[3600],
    )
    restarted_at: str | None = Field(
        None,
        max_length=64,
        description="Each new value restarts the driver. By convention the current time.",
        examples=["2026-11-22T07:00:00Z"],
    )
    image: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="The image of driver and executors. Default: the image that the operator was "
        "installed with.",
    )
    image_pull_secrets: Annotated[list[ImagePullSecret], Field(max_length=16)] = Field(
        [], description="Secrets with credentials for the image's registry."
    )
    service_account_name: DriverServiceAccount | None = Field(
        None,
        description="An existing service account for driver and executors, such as one with a "
        "cloud's role. Penstock binds it to the role that drivers need. Default: Penstock creates "
        "<name>-driver for the stream.",
    )
    query_name: (
        Annotated[
            str,
            text_like(
                r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
                "takes at most 63 letters, digits, '.', '_' and '-', and begins and ends with a "
                "letter or a digit",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Spark's name for the query, in its logs and metrics. Default: metadata.name.",
        examples=["fraud-flags"],
    )
    kafka: KafkaConnection | None = Field(
        None,
        description="The Kafka connection that source.kafka and sink.kafka share. If one of them "
        "sets bootstrapServers, it uses nothing from spec.kafka, so that credentials never go to "
        "another broker. Otherwise its own options are added to these and win over them.",
    )
    source: Source = Field(description="Where the records come from. Exactly one source.")
    transform: Transform = Field(Transform(), description="What happens to each record.")
    sink: Sink = Field(description="Where the records go. Exactly one sink.")
    trigger: Trigger = Field(description="How the query runs. Exactly one trigger.")
    output_mode: Literal["append", "update", "complete"] | None = Field(
        None,
        description="Which rows are written: append writes new rows, update changed rows, complete "
        "all rows. Default: update in real-time mode, append in the others.",
    )
    checkpoint: Checkpoint = Field(Checkpoint(), description="Where progress is stored.")
    restart: Restart = Field(Restart(), description="How the stream restarts after failures.")
    rollout: RolloutPolicy = Field(
        RolloutPolicy(), description="What becomes of an edit that does not run."
    )
    driver: Driver = Field(Driver(), description="The driver's pod.")
    executor: Executor = Field(
        Executor(), description="The executors, which run the query's tasks."
    )
    observability: Observability = Field(
        Observability(), description="Spark's web UI, event log and logs."
    )
    dependencies: Dependencies = Field(
        Dependencies(), description="Jars that the query needs and the image does not have."
    )
    spark_conf: Options = Field(
        {},
        description="Further Spark configuration. What Penstock sets itself is refused.",
        examples=[{"spark.sql.session.timeZone": "UTC"}],
        json_schema_extra={"x-kubernetes-validations": [NO_RESERVED_CONF.as_schema()]},
    )

    secret_spark_conf: SecretOptions = Field(
        {},
        description="Spark configuration whose values are in Secrets, such as the credentials of a "
        "catalog or of a file system. They are read when Spark starts, and are in no ConfigMap, "
        "page, log or status.",
        examples=[
            {"spark.sql.catalog.lake.credential": {"name": "lake", "key": "credential"}},
        ],
        json_schema_extra={"x-kubernetes-validations": [NO_RESERVED_CONF.as_schema()]},
    )

    @field_validator("spark_conf", "secret_spark_conf")
    @classmethod
    def _no_reserved_conf(cls, conf: dict[str, Any]) -> dict[str, Any]:
        NO_RESERVED_CONF.check(conf)
        return conf

    @property
    def uses_kafka(self) -> bool:
        """Whether it reads or writes Kafka by spec.source.kafka or spec.sink.kafka."""
        return self.source.kafka is not None or self.sink.kafka is not None

    @property
    def needs_connector(self) -> bool:
        """Whether it needs classes of Penstock's beside Spark's, in `connector/`."""
        return self.uses_kafka or self.sink.jdbc is not None or bool(self.secret_value_refs)

    @property
    def secret_value_refs(self) -> list[KeyRef]:
        """The Secrets' keys whose values go to Spark or to code of others."""
        ends = (self.source.custom, self.sink.custom, self.sink.python)
        of_ends = [end.secret_options for end in ends if end is not None]
        return [ref for refs in (*of_ends, self.secret_spark_conf) for ref in refs.values()]

    @property
    def python_functions(self) -> list[PythonFunction]:
        """Of transform and sink."""
        return [it for it in (self.transform.python, self.sink.python) if it is not None]

    @model_validator(mode="after")
    def _with_whole_connections(self) -> StreamSpec:
        update: dict[str, object] = {}
        if self.source.kafka is not None:
            client = with_connection(self.source.kafka, self.kafka)
            update["source"] = self.source.model_copy(update={"kafka": client})
        if self.sink.kafka is not None:
            writer = with_connection(self.sink.kafka, self.kafka)
            update["sink"] = self.sink.model_copy(update={"kafka": writer})
        return self.model_copy(update=update)
