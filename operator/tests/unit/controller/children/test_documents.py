"""What an upgrade does to the documents that drivers read: nothing, until a stream changes.

`released` holds the documents of the last release, for streams that use every field. A release
adds its own file (`document` of each spec in testkit/streams/every_field.py) and leaves the others
as they are. 0.1.0 is not out: until then its file follows the fields.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from penstock.api import group_version
from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.cluster import kinds
from penstock.cluster.kinds import Manifest
from penstock.contract import naming
from penstock.controller.children.revision import document, resolve
from penstock.controller.operator_settings import Settings
from penstock.driver.kubernetes.followed_stream import StreamDocument
from testkit.controller import samples
from testkit.controller.fake_cluster import FakeCluster

RELEASED = [
    text
    for path in sorted((Path(__file__).parent / "released").glob("*.yaml"))
    for text in path.read_text().split("---\n")
]
# Their keys are the user's.
_FREE = {"options", "secretOptions", "sparkConf", "podTemplate", "assign"}


@pytest.mark.parametrize("text", RELEASED)
def test_a_released_document_is_written_as_before_and_has_no_field_that_is_unknown_now(
    text: str,
) -> None:
    """Another text would be another revision of every stream, and restart every driver."""
    held = yaml.safe_load(text)
    meta, spec = held["metadata"], held["spec"]
    assert document(meta["name"], meta["namespace"], spec, spec["image"]) == text
    assert ContinuousStream.from_yaml(text) == StreamDocument(text).stream


@pytest.mark.parametrize("others", [{}, {"ui": True}])
def test_another_log_level_is_no_other_revision(
    cluster: FakeCluster, others: dict[str, bool]
) -> None:
    """The driver asks the API server for it, and goes on; also if it is removed."""
    if others:
        cluster.apply(observability=others)
        cluster.settle()
    started = len(cluster.drivers_started)
    for level in ({"logLevel": "DEBUG"}, {}):
        cluster.apply(observability={**others, **level})
        cluster.settle()
        assert len(cluster.drivers_started) == started
        assert cluster.state == "Running"


def test_the_revision_of_a_stream_is_the_same_in_each_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sample's, as 0.1.0 computes it. Another version of the API changes nothing."""
    raw = samples.stored()
    stream = ContinuousStream.model_validate(raw)
    monkeypatch.setattr(group_version, "API_VERSION", "penstock.dev/v1beta1")
    desired = resolve(stream, raw, samples.SETTINGS)
    assert (desired.spec_hash, desired.pod_hash) == ("e9c271ecbe", "2078c91775")


def objects_of(value: Any) -> Iterator[dict[str, Any]]:
    """All objects within a document whose fields the resource defines."""
    if isinstance(value, dict):
        yield value
        for key, each in value.items():
            if key not in _FREE and key != "startingOffsetsByPartition":
                yield from objects_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from objects_of(each)


@pytest.mark.parametrize("text", RELEASED)
def test_a_driver_ignores_the_fields_of_a_newer_operator(text: str) -> None:
    """At every level. The operator itself, `penstock validate` and the API server refuse them."""
    newer = yaml.safe_load(text)
    for each in list(objects_of(newer)):
        each["fieldOfTheFuture"] = {"any": ["thing"]}
    parsed = StreamDocument(yaml.safe_dump(newer)).stream
    assert parsed == StreamDocument(text).stream
    with pytest.raises(ValidationError):
        ContinuousStream.from_yaml(yaml.safe_dump(newer))


@pytest.fixture
def upgraded(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The same, with another version of the operator: its pod template differs."""
    monkeypatch.setattr(naming, "GRACE_SECONDS", 61)
    cluster.restart_operator()
    return cluster


def template(cluster: FakeCluster) -> Manifest:
    found: Manifest = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")["spec"]["template"]
    return copy.deepcopy(found)


def grace(cluster: FakeCluster) -> int:
    return int(template(cluster)["spec"]["terminationGracePeriodSeconds"])


def test_an_upgrade_of_the_operator_restarts_no_driver(upgraded: FakeCluster) -> None:
    assert upgraded.reconcile() == []
    upgraded.settle()
    assert len(upgraded.drivers_started) == 1


def test_all_but_the_template_is_still_looked_after(upgraded: FakeCluster) -> None:
    driver = upgraded.api.one(kinds.STATEFUL_SET, "flags-driver")
    driver["spec"]["replicas"] = 0
    upgraded.api.put(driver)
    upgraded.settle()
    assert upgraded.api.one(kinds.STATEFUL_SET, "flags-driver")["spec"]["replicas"] == 1
    assert len(upgraded.drivers_started) == 1
    assert upgraded.reconcile() == []


def test_the_next_revision_of_a_stream_has_the_new_template(upgraded: FakeCluster) -> None:
    upgraded.settle()
    upgraded.apply(executor={"cores": 2})
    upgraded.settle()
    assert grace(upgraded) == 61
    assert len(upgraded.drivers_started) == 2
    assert upgraded.state == "Running"


def test_a_stateful_set_that_is_deleted_comes_back_with_the_new_template(
    upgraded: FakeCluster,
) -> None:
    """So a fix in the template reaches the drivers when the administrator says so."""
    upgraded.api.remove(upgraded.api.one(kinds.STATEFUL_SET, "flags-driver"))
    upgraded.settle()
    assert grace(upgraded) == 61
    assert upgraded.state == "Running"


def test_another_default_image_is_another_revision(cluster: FakeCluster) -> None:
    """The image of the chart's values: drivers are meant to get it."""
    cluster.settings = Settings("penstock-spark:next")
    cluster.restart_operator()
    cluster.settle()
    assert len(cluster.drivers_started) == 2


def test_a_template_that_others_have_edited_is_restored(cluster: FakeCluster) -> None:
    """Under the same version of the operator."""
    found = cluster.api.one(kinds.STATEFUL_SET, "flags-driver")
    found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    cluster.api.put(found)
    cluster.settle()
    assert grace(cluster) == 60
