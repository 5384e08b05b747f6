"""What is read besides objects: log lines, the driver's metrics; and which rights that takes."""

from __future__ import annotations

import json

import yaml
from prometheus_client import generate_latest

from penstock.client.reading import rights
from penstock.client.reading.logs import Line, for_people, merge, parse_line, source_of
from penstock.client.reading.metrics_page import parse_metrics
from penstock.cluster.pods import Pod
from penstock.driver.checkpoint.progress import Commit
from penstock.driver.reporting.metrics import Metrics
from testkit.controller import samples
from testkit.paths import CHECKOUT

TIME = "2026-11-22T05:01:10.123456789Z"


def shown(text: str, source: str = "driver") -> str:
    return for_people(Line(TIME, source, text))


def test_a_line_of_the_driver_shows_its_fields() -> None:
    text = {
        "time": "2026-11-22T05:01:09.500+00:00",
        "level": "WARNING",
        "logger": "penstock.driver",
        "message": "failure",
        "reason": "TopicMissing",
        "cause": "The topic in does not exist.",
        "permanent": True,
    }
    assert shown(json.dumps(text)) == (
        "05:01:09.500 WARN  driver     | failure reason=TopicMissing "
        'cause="The topic in does not exist." permanent=true'
    )


def test_a_line_of_the_drivers_jvm_has_another_source_than_the_supervisors() -> None:
    entry = {
        "time": "2026-11-22T05:01:09.500+00:00",
        "level": "ERROR",
        "logger": "org.apache.spark.scheduler.TaskSchedulerImpl",
        "message": "Lost executor 1",
        "rootCause": "java.io.IOException",
        "trace": [{"in": "a", "line": 1}],
    }
    assert shown(json.dumps(entry)) == (
        "05:01:09.500 ERROR jvm        | TaskSchedulerImpl: Lost executor 1 "
        "rootCause=java.io.IOException"
    )
    assert "exec-3     | TaskSchedulerImpl" in shown(json.dumps(entry), "exec-3")


def test_a_line_that_is_no_json_is_shown_as_it_is() -> None:
    """Such as a stack trace of Python, or a broken line."""
    assert shown("Killed") == "05:01:10.123       driver     | Killed"
    assert shown('{"time": ').endswith('| {"time": ')
    assert shown("{}").startswith("05:01:10.123")


def test_logs_are_merged_by_the_time_of_each_line() -> None:
    first = [parse_line("driver", f"2026-11-22T05:01:1{n}.000000000Z a{n}") for n in (0, 2)]
    second = [parse_line("exec-1", f"2026-11-22T05:01:1{n}.000000000Z b{n}") for n in (1, 3)]
    assert [each.text for each in merge([first, second])] == ["a0", "b1", "a2", "b3"]


def test_a_pod_has_a_short_name() -> None:
    executor = samples.executor_pod(7)
    assert source_of(Pod(samples.driver_pod("hash"))) == "driver"
    assert source_of(Pod(executor)) == "flags-exec-7"
    executor["metadata"]["labels"]["spark-exec-id"] = "7"
    assert source_of(Pod(executor)) == "exec-7"


def test_the_drivers_own_page_of_metrics_is_understood() -> None:
    """A renamed metric fails here."""
    metrics = Metrics()
    metrics.observe_commit(Commit(epoch=3, at=1_795_300_000.0, took=0.1, offsets=None), None)
    metrics.set_report(samples.report("hash", lag=12))
    metrics.observe_latency(0.5)
    metrics.observe_latency(1.5)
    found = parse_metrics(generate_latest(metrics.registry).decode())
    assert found is not None
    assert found.last_commit is not None
    assert found.last_commit.timestamp() == 1_795_300_000.0
    assert (found.lag, found.records, found.latency) == (12, 0.0, 1.0)


def test_a_driver_that_has_not_committed_has_no_time_of_a_commit() -> None:
    found = parse_metrics(generate_latest(Metrics().registry).decode())
    assert found is not None
    assert found.last_commit is None
    assert found.latency is None


def test_another_page_is_no_page_of_metrics() -> None:
    assert parse_metrics("<html>bad gateway</html>") is None


def test_the_operators_rights_are_those_of_the_chart() -> None:
    """`doctor` asks the API server for each of them."""
    template = (CHECKOUT / "charts/penstock/templates/rbac.yaml").read_text()
    rules = yaml.safe_load(template.split("rules:")[1].split("{{")[0])
    granted = {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {
        (each.verb, each.group, "/".join(filter(None, (each.resource, each.subresource))))
        for each in rights.OF_OPERATOR
    }
    assert asked == granted


def test_the_document_names_every_right_that_a_person_needs() -> None:
    """With its verbs, in one row."""
    rows = (CHECKOUT / "docs/on-call.md").read_text().split("## Rights")[1].splitlines()
    for each in rights.OF_PEOPLE:
        group = f".{each.group}" if each.group else ""
        path = f"/{each.subresource}" if each.subresource else ""
        (row,) = [row for row in rows if f"`{each.resource}{group}{path}`" in row][:1]
        assert each.verb in row.split("|")[3], each
