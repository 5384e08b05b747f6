"""The models accept valid specs and refuse others with a message that names the field."""

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.reserved_spark_conf import RESERVED_CONFS
from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.validation.schema_errors import describe_error
from testkit.streams.streams import KAFKA_TO_KAFKA, RATE_TO_CONSOLE


@pytest.mark.parametrize("spec", [RATE_TO_CONSOLE, KAFKA_TO_KAFKA])
def test_good_specs_are_read_and_written_back_unchanged_in_meaning(spec: dict[str, Any]) -> None:
    """A resource that was written and read again equals the original."""
    stream = ContinuousStream.model_validate({"metadata": {"name": "flags"}, "spec": spec})
    assert ContinuousStream.from_yaml(stream.to_yaml()) == stream


def test_a_conf_that_penstock_sets_is_refused_with_the_field_to_use() -> None:
    for conf, instead in RESERVED_CONFS.items():
        with pytest.raises(ValidationError) as refused:
            StreamSpec.model_validate({**RATE_TO_CONSOLE, "sparkConf": {conf: "x"}})
        (problem,) = describe_error(refused.value)
        assert f"{conf} cannot be set here: {instead}" in problem.message


def test_a_name_too_long_for_its_pods_is_refused() -> None:
    """The pods of a StatefulSet have a label with its name, of at most 63 characters."""
    with pytest.raises(ValidationError, match="at most 45 characters"):
        ContinuousStream.model_validate({"metadata": {"name": "x" * 46}, "spec": RATE_TO_CONSOLE})
