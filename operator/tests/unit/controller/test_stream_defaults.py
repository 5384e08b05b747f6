"""Fields of the spec that the cluster's administrator sets for the streams that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.contract import naming
from penstock.contract.operator_settings import PodSecurity
from penstock.contract.stream_defaults import ALLOWED, StreamDefaults
from penstock.driver.kubernetes.followed_stream import StreamDocument
from penstock.validation.spec_check import judge_defaults
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

DEFAULTS = StreamDefaults(
    {
        "imagePullSecrets": [{"name": "registry"}],
        "checkpoint": {"volume": {"storageClassName": "fast"}},
        "driver": {"podTemplate": {"spec": {"nodeSelector": {"pool": "streams"}}}},
        "executor": {"resources": {"requests": {"memory": "3Gi"}}},
        "sparkConf": {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"},
    }
)


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    have(cluster, DEFAULTS)
    return cluster


def have(cluster: FakeCluster, defaults: StreamDefaults) -> None:
    """The operator is installed with other defaults."""
    cluster.settings = replace(samples.SETTINGS, stream_defaults=defaults)
    cluster.restart_operator()


def pod_spec(cluster: FakeCluster) -> dict[str, Any]:
    owner = cluster.api.one(kinds.STATEFUL_SET, naming.driver_name(cluster.key.name))
    spec: dict[str, Any] = owner["spec"]["template"]["spec"]
    return spec


def of_driver(cluster: FakeCluster) -> ContinuousStream:
    """The stream as its driver reads it."""
    (container,) = pod_spec(cluster)["containers"]
    variables = {it["name"]: it.get("value", "") for it in container["env"]}
    defaults = StreamDefaults.from_json(variables.get(naming.ENV_STREAM_DEFAULTS, ""))
    name = naming.config_name(cluster.key.name, variables[naming.ENV_POD_HASH])
    text = cluster.api.one(kinds.CONFIG_MAP, name)["data"][naming.SPEC_FILE]
    return StreamDocument(text, defaults).stream


def test_operator_and_driver_have_what_the_spec_does_not_set(cluster: FakeCluster) -> None:
    cluster.apply(sparkConf={"spark.sql.ansi.enabled": "false"})
    cluster.settle()
    assert pod_spec(cluster)["imagePullSecrets"] == [{"name": "registry"}]
    assert pod_spec(cluster)["nodeSelector"] == {"pool": "streams"}
    claim = cluster.api.one(kinds.CLAIM, naming.checkpoint_claim_name(cluster.key.name))
    assert claim["spec"]["storageClassName"] == "fast"
    spec = of_driver(cluster).spec
    assert [it.name for it in spec.image_pull_secrets] == ["registry"]
    assert spec.executor.resources.requests.memory == "3Gi"
    assert spec.spark_conf == {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
    }
    assert cluster.state == "Running"


def test_other_defaults_come_with_the_next_pod(cluster: FakeCluster) -> None:
    """They are no edit: neither a new pod, nor another revision."""
    cluster.apply()
    cluster.settle()
    before, revision = cluster.pod, cluster.status.effective
    have(cluster, StreamDefaults({"sparkConf": {"spark.sql.ansi.enabled": "true"}}))
    cluster.settle()
    assert before is not None
    assert revision is not None
    assert cluster.pod is not None
    assert cluster.pod["metadata"]["uid"] == before["metadata"]["uid"]
    assert cluster.status.effective is not None
    assert cluster.status.effective.revision == revision.revision
    assert of_driver(cluster).spec.spark_conf == DEFAULTS.spec["sparkConf"]
    cluster.apply(executor={"cores": 2})
    cluster.settle()
    assert "nodeSelector" not in pod_spec(cluster)
    assert of_driver(cluster).spec.spark_conf == {"spark.sql.ansi.enabled": "true"}


def test_resources_are_the_specs_or_the_defaults() -> None:
    """Half of each could contradict the other half."""
    own = {"resources": {"limits": {"memory": "4Gi"}}, "cores": 2}
    under = DEFAULTS.under({"spec": {"executor": own}})
    assert under["spec"]["executor"] == own


@pytest.mark.parametrize(
    ("default", "own"),
    [
        (
            {"sparkConf": {"spark.sql.shuffle.partitions": "8"}},
            {"checkpoint": {"statePartitions": 4}},
        ),
        (
            {"checkpoint": {"statePartitions": 4}},
            {"sparkConf": {"spark.sql.shuffle.partitions": "8"}},
        ),
        (
            {"sparkConf": {"spark.sql.streaming.stateStore.providerClass": "Own"}},
            {"checkpoint": {"objectStore": {"location": "s3a://bucket/path"}}},
        ),
        (
            {"checkpoint": {"volume": {"size": "1Gi"}}},
            {"checkpoint": {"objectStore": {"location": "s3a://bucket/path"}}},
        ),
        (
            {"sparkConf": {"spark.hadoop.a": "b"}},
            {"secretSparkConf": {"spark.hadoop.a": {"name": "c", "key": "d"}}},
        ),
    ],
)
def test_what_a_stream_sets_displaces_a_default_that_excludes_it(
    default: dict[str, Any], own: dict[str, Any]
) -> None:
    stream = samples.stream(**own)
    displaced = ContinuousStream.model_validate(StreamDefaults(default).under(stream)).spec
    assert displaced == ContinuousStream.model_validate(stream).spec


@pytest.mark.parametrize(
    ("default", "own", "expected"),
    [
        # How executors are, if there are any. No stream asks for them by that.
        ({"executor": {"cores": 2}}, {}, {"mode": "Auto", "cores": 2}),
        ({"sparkConf": {"spark.executor.pyspark.memory": "1g"}}, {}, {"mode": "Auto"}),
        ({"executor": {"mode": "Pods"}}, {}, {"mode": "Pods"}),
        ({"executor": {"mode": "InDriver"}}, {}, {"mode": "InDriver"}),
        ({"executor": {"cores": 2}}, {"executor": {"cores": 4}}, {"cores": 4}),
        ({"executor": {"cores": 2}}, {"executor": {"mode": "InDriver"}}, {"mode": "InDriver"}),
        ({"executor": {"mode": "InDriver"}}, {"executor": {"cores": 4}}, {"cores": 4}),
        (
            {"executor": {"mode": "InDriver"}},
            {"sparkConf": {"spark.kubernetes.executor.label.a": "b"}},
            {},
        ),
        ({"executor": {"cores": 2}}, {"executor": {"mode": "Pods"}}, {"mode": "Pods", "cores": 2}),
        (
            {"sparkConf": {"spark.executor.pyspark.memory": "1g"}},
            {"executor": {"mode": "InDriver"}},
            {"mode": "InDriver"},
        ),
    ],
)
def test_defaults_for_executors_leave_the_stream_where_it_is(
    default: dict[str, Any], own: dict[str, Any], expected: dict[str, Any]
) -> None:
    under = StreamDefaults(default).under(samples.stream(**own))
    assert under["spec"].get("executor", {}) == expected
    ContinuousStream.model_validate(under)


@pytest.mark.parametrize("stream", [{"spec": None}, {}, {"spec": []}])
def test_a_stream_without_a_spec_stays_as_it_is(stream: dict[str, Any]) -> None:
    assert DEFAULTS.under(stream) == stream


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": "x"}, "image: there are defaults for imagePullSecrets, "),
        ({"restart": {}, "kafka": {}}, "kafka, restart: there are defaults for"),
        ({"driver": 1}, "driver: should be an object"),
        ({"sparkConf": {"spark.master": "local"}}, "spark.master cannot be set here"),
        ({"checkpoint": {"objectStore": {"location": "s3://bucket"}}}, "the scheme s3a only"),
        (
            {"checkpoint": {"objectStore": {"location": "s3a://bucket"}, "volume": {}}},
            "takes volume or objectStore, not both",
        ),
        ({"executor": {"podTemplate": {"spec": {"hostNetwork": True}}}}, "hostNetwork"),
    ],
)
def test_defaults_with_which_no_stream_could_run_are_refused(
    spec: dict[str, Any], words: str
) -> None:
    (problem,) = judge_defaults(StreamDefaults(spec), PodSecurity.RESTRICTED)
    assert words in problem


def test_good_defaults_are_taken() -> None:
    assert judge_defaults(DEFAULTS, PodSecurity.RESTRICTED) == []
    assert set(DEFAULTS.spec) == set(ALLOWED)
