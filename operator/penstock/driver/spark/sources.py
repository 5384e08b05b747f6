"""The options of Spark's data source for the spec's source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.api.modes import Mode
from penstock.api.quantities import milliseconds
from penstock.api.v1alpha1 import KafkaSource, Source
from penstock.driver.checkpoint.start_position import OTHER_START_OPTIONS
from penstock.driver.kafka.security import security_options
from penstock.driver.record_position import Position
from penstock.driver.spark.custom import custom_source

KAFKA = "kafka"
# The data source in connector/: Spark's, with another reader and writer in continuous mode, and a
# reader in the other modes that says which record a task failed at.
PENSTOCK_KAFKA = "penstock-kafka"

# The option of penstock-kafka for the records that are not to be read, by their positions.
_LEAVE_OUT = "leaveOut"


def source_options(
    source: Source,
    secrets: Path,
    mode: Mode,
    starting: str | None = None,
    partitions: Mapping[str, Sequence[int]] | None = None,
    leave_out: Sequence[Position] = (),
) -> tuple[str, dict[str, str]]:
    """The source's format and options.

    `starting` replaces the spec's startingOffsets; `partitions`, if given, are all that is read;
    `leave_out` are records that are not.
    """
    if source.kafka is not None:
        read = _subscription(source.kafka, partitions)
        left_out = {_LEAVE_OUT: ",".join(map(str, leave_out))} if leave_out else {}
        of_kafka = _kafka(source.kafka, secrets, starting)
        return PENSTOCK_KAFKA, {**of_kafka, **read, **left_out}
    if source.rate is not None:
        options = {
            "rowsPerSecond": str(source.rate.rows_per_second),
            "numPartitions": str(source.rate.num_partitions),
        }
        if source.rate.ramp_up_time is not None:
            options["rampUpTime"] = f"{milliseconds(source.rate.ramp_up_time)}ms"
        return "rate", options
    if source.socket is not None:
        return "socket", {
            "host": source.socket.host,
            "port": str(source.socket.port),
            "includeTimestamp": _boolean(source.socket.include_timestamp),
        }
    if source.custom is not None:
        return custom_source(source.custom, secrets)
    raise ValueError("spec.source has no source")


def _kafka(kafka: KafkaSource, secrets: Path, starting: str | None) -> dict[str, str]:
    # Spark prefers a start by time, if there is one.
    by_time = OTHER_START_OPTIONS if starting is not None else frozenset[str]()
    return {
        **{name: text for name, text in kafka.options.items() if name.lower() not in by_time},
        **security_options(kafka, secrets),
        "startingOffsets": starting or _starting_offsets(kafka),
        "failOnDataLoss": _boolean(kafka.fail_on_data_loss),
        "includeHeaders": _boolean(kafka.include_headers),
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
    }


def _subscription(
    kafka: KafkaSource, partitions: Mapping[str, Sequence[int]] | None
) -> dict[str, str]:
    """The option that names what is read: the given partitions, if there are any.

    The continuous engine gets partitions, not topics, so it does not see new partitions. It would
    plan itself again in the middle of its run, over offsets that it has not committed, and would
    never overwrite them (repair.py): a crash within the next epoch could lose records.
    """
    if partitions is not None:
        assigned = {topic: list(numbers) for topic, numbers in partitions.items()}
        return {"assign": json.dumps(assigned, sort_keys=True)}
    if kafka.topics is not None:
        return {"subscribe": ",".join(kafka.topics)}
    if kafka.topic_pattern is not None:
        return {"subscribePattern": kafka.topic_pattern}
    return {"assign": json.dumps(kafka.assign, sort_keys=True)}


def _starting_offsets(kafka: KafkaSource) -> str:
    by_partition = kafka.starting_offsets_by_partition
    if by_partition:
        return json.dumps(by_partition, sort_keys=True)
    return kafka.starting_offsets or "latest"


def _boolean(holds: bool) -> str:
    return str(holds).lower()
