"""Every bad manifest is refused with a message: the field, the reason, the remedy."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from penstock.api.v1alpha1 import StreamSpec
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.validation import spec_check
from penstock.validation.schema_errors import describe_error
from testkit.streams.bad_manifests import GOOD, RING_1, RING_2, Bad
from testkit.streams.streams import changed, spec


def refusals(it: dict[str, Any]) -> list[str]:
    """The messages of the operator and of `penstock validate` about a spec."""
    try:
        stream = ContinuousStream.model_validate({"metadata": {"name": "bad"}, "spec": it})
    except ValidationError as error:
        return [str(each) for each in describe_error(error)]
    return [str(each) for each in spec_check.find_problems(stream.spec)]


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize("bad", [*RING_1, *RING_2], ids=str)
def test_the_message_names_field_reason_and_remedy(bad: Bad) -> None:
    """integration/api/test_admission.py checks ring 1 with a real API server too."""
    assert any(bad.at in each and bad.says in each for each in refusals(bad.spec)), refusals(
        bad.spec
    )


def test_the_good_manifest_is_valid() -> None:
    """Each bad one differs from it."""
    assert refusals(GOOD) == []


def test_a_small_heap_is_named_with_the_memory_that_would_do() -> None:
    (said,) = refusals(changed(GOOD, "executor.resources.limits.memory", "700Mi"))
    assert "which leaves 316Mi: raise the memory to 864Mi, or lower the overhead" in said


def test_messages_do_not_repeat_values_that_may_be_credentials() -> None:
    """Messages go to the status and to logs."""
    (said,) = refusals(changed(GOOD, "sink.kafka.options", {"x": "hunter2" * 700}))
    assert "hunter2" not in said


def test_wrong_types_are_described_without_terms_of_pydantic() -> None:
    """And paths are those of kubectl."""
    values: dict[str, Any] = {
        "executor.cores": "two",
        "sink.kafka.topic": "a/b",
        "source.kafka.includeHeaders": "maybe",
        "source.kafka.startingOffsets": "newest",
        "source.kafka.tls": "on",
        "source.kafka.topics": "in",
        "sparkConf": [],
        "transform.functions": [{"name": 1, "returns": "INT", "expression": "1"}],
    }
    assert {path: refusals(changed(GOOD, path, value)) for path, value in values.items()} == {
        "executor.cores": ["spec.executor.cores: should be an integer (not 'two')"],
        "sink.kafka.topic": [
            "spec.sink.kafka.topic: takes at most 249 letters, digits, '.', '_' and '-', and is "
            "not . or .. (not 'a/b')"
        ],
        "source.kafka.includeHeaders": [
            "spec.source.kafka.includeHeaders: should be true or false (not 'maybe')"
        ],
        "source.kafka.startingOffsets": [
            "spec.source.kafka.startingOffsets: should be 'earliest' or 'latest' (not 'newest')"
        ],
        "source.kafka.tls": ["spec.source.kafka.tls: should be an object (not 'on')"],
        "source.kafka.topics": ["spec.source.kafka.topics: should be a list (not 'in')"],
        "sparkConf": ["spec.sparkConf: should be an object"],
        "transform.functions": ["spec.transform.functions[0].name: should be a string (not 1)"],
    }


def test_a_memory_sink_is_for_local_runs_only() -> None:
    it = spec(sink={"memory": {}})
    assert spec_check.find_problems(it, local=True) == []
    assert [each.reason for each in spec_check.find_problems(it)] == ["MemorySinkInCluster"]


PYTHON = {"python": {"function": "m:f"}}


def test_python_in_continuous_mode_is_a_warning_that_names_native_alternatives() -> None:
    """Not a refusal: a transform that combines Spark's own expressions is native."""
    it = StreamSpec.model_validate(changed(GOOD, "transform", PYTHON))
    assert spec_check.find_problems(it) == []
    (warning,) = spec_check.judge(it)
    assert warning.severity == "warning"
    assert warning.reason == "PythonInContinuousMode"
    for part in (
        "spec.transform.python",
        "526 ms",
        "a few milliseconds",
        "Arrow",
        "trigger.realTime refuses",
        "transform.sql",
        "transform.functions",
        "transform.javaFunctions",
    ):
        assert part in warning.message


@pytest.mark.parametrize("trigger", [{"microBatch": {}}, {"availableNow": {}}])
def test_python_that_is_not_in_the_spec_is_said_not_to_be_judged(trigger: dict[str, Any]) -> None:
    it = StreamSpec.model_validate(changed(changed(GOOD, "transform", PYTHON), "trigger", trigger))
    notice, *others = spec_check.judge(it)
    assert [each.reason for each in others] in ([], ["StartsAtLatest"])
    assert (notice.reason, notice.severity) == ("NotJudged", "notice")


_AVRO = {"dependencies": {"packages": ["org.apache.spark:spark-avro_2.12:3.5.0"]}}
_UDF = """
from pyspark.sql.functions import udf
def f(source):
    return source.select(udf(str)("value").alias("value"))
"""


@pytest.mark.proves("ci.md")
@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"source": {"custom": {"format": "kafka"}}}, "KafkaAsDataSource", "use source.kafka"),
        ({"sink": {"custom": {"format": "Kafka"}}}, "KafkaAsDataSource", "use sink.kafka"),
        ({"sink": {"custom": {"format": "delta"}}}, "DependencyDoubtful", "name its package in"),
        ({"sink": {"custom": {"format": "delta"}}, "image": "mine"}, "", ""),
        (_AVRO, "DependencyDoubtful", "the artifact that ends with _2.13"),
        ({"dependencies": {"packages": ["a:b_2.13:1"]}}, "", ""),
        *(
            ({"source.kafka.topics": ..., "source.kafka.topicPattern": pattern}, reason, says)
            for pattern, reason, says in (
                ("payments-*", "InvalidPattern", "for any text write .*"),
                ("payments*", "InvalidPattern", "for any text write .*"),
                ("payments-.*", "", ""),
                (r"payments-\d*", "", ""),
                ("payments-[a-z]*", "", ""),
                ("(c|d)*", "", ""),
            )
        ),
        ({"trigger": {"availableNow": {}}}, "StartsAtLatest", "reads nothing, and is Completed"),
        *(
            ({"trigger": {"availableNow": {}}, **more}, "", "")
            for more in (
                {"source.kafka.startingOffsets": "earliest"},
                {"source.kafka.startingOffsetsByPartition": {"a": {"0": 5}}},
                {"source.kafka.options": {"startingTimestamp": "5"}},
            )
        ),
        (
            {
                "source.kafka.deadLetters": {"topic": "c"},
                "transform": {"python": {"function": "m:f", "inline": _UDF}},
                "trigger": {"microBatch": {}},
            },
            "DeadLettersNotPossible",
            "line 2: this makes a UDF",
        ),
    ],
)
def test_what_runs_otherwise_than_it_is_meant_is_a_warning(
    changes: dict[str, Any], reason: str, says: str
) -> None:
    """Or what perhaps does not run: only the image tells."""
    it = GOOD if "trigger" in changes else {**GOOD, "trigger": {"microBatch": {}}}
    for path, value in changes.items():
        it = changed(it, path, value)
    found = spec_check.judge(StreamSpec.model_validate(it))
    assert [each.severity for each in found if each.reason == reason] == ["warning"] * bool(reason)
    assert [each for each in found if each.severity == "error"] == []
    assert not reason or any(says in each.message for each in found)
    assert reason or {each.reason for each in found} <= {"NotJudged"}
