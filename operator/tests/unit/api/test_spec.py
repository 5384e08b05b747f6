"""The models accept valid specs and refuse others with a message that names the field."""

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.reserved_spark_conf import RESERVED_CONFS
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.validation.schema_errors import describe_error
from testkit.streams.streams import KAFKA_TO_KAFKA, RATE_TO_CONSOLE, changed


@pytest.mark.parametrize("spec", [RATE_TO_CONSOLE, KAFKA_TO_KAFKA])
def test_good_specs_are_read_and_written_back_unchanged_in_meaning(spec: dict[str, Any]) -> None:
    """A resource that was written and read again equals the original."""
    stream = ContinuousStream.model_validate({"metadata": {"name": "flags"}, "spec": spec})
    assert ContinuousStream.from_yaml(stream.to_yaml()) == stream


SPOILED = [
    ("source", ..., "source: this field is required"),
    ("source", {}, "source: spec.source takes exactly one of: kafka, rate"),
    (
        "source.kafka",
        {"bootstrapServers": "k:9092", "topics": ["a"]},
        "exactly one of: kafka, rate",
    ),
    ("source.rate.numPartitions", 0, "source.rate.numPartitions: "),
    ("source.rate.rowPerSecond", 1, "source.rate.rowPerSecond: there is no such field"),
    ("sink", {}, "sink: spec.sink takes exactly one of: kafka, console"),
    ("trigger", {}, "trigger: spec.trigger takes exactly one of: continuous"),
    ("trigger.continuous.checkpointInterval", "soon", "'soon' is not a duration"),
    ("trigger.continuous.checkpointInterval", "0s", "must be longer than 0"),
    ("executor", {"minInstances": 3, "maxInstances": 2}, "minInstances cannot be above"),
    ("driver.resources.limits.memory", "lots", "driver.resources.limits.memory: "),
    ("checkpoint.volume.reclaimPolicy", "Recycle", "checkpoint.volume.reclaimPolicy: "),
]


@pytest.mark.parametrize(("path", "value", "expected"), SPOILED)
def test_a_spoiled_spec_is_refused_with_the_field_named(
    path: str, value: Any, expected: str
) -> None:
    """The message holds the path of the field and what is wrong with it."""
    with pytest.raises(ValidationError) as refused:
        StreamSpec.model_validate(changed(RATE_TO_CONSOLE, path, value))
    assert any(expected in str(each) for each in describe_error(refused.value))


@pytest.mark.parametrize("conf", RESERVED_CONFS)
def test_a_conf_that_penstock_sets_is_refused_with_the_field_to_use(conf: str) -> None:
    """The message names the conf and what to use instead."""
    with pytest.raises(ValidationError) as refused:
        StreamSpec.model_validate({**RATE_TO_CONSOLE, "sparkConf": {conf: "x"}})
    (problem,) = describe_error(refused.value)
    assert conf in problem.message
    assert RESERVED_CONFS[conf] in problem.message


def test_a_name_too_long_for_its_pods_is_refused() -> None:
    """The pods of a StatefulSet have a label with its name, of at most 63 characters."""
    with pytest.raises(ValidationError, match="at most 45 characters"):
        ContinuousStream.model_validate({"metadata": {"name": "x" * 46}, "spec": RATE_TO_CONSOLE})
