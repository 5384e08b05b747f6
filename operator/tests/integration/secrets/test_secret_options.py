"""secretOptions and secretSparkConf beside data sources that say their options wherever they can.

Thirty values: fifteen of the source, fourteen of the sink, one of Spark's configuration. None may
be in a log, report, metric, page of Spark's web UI, event log, checkpoint or message.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from penstock.api.v1alpha1.stream import ContinuousStream
from penstock.driver import logs
from penstock.driver.environment import LocalEnvironment
from penstock.driver.kubernetes.api import Api
from testkit.driver import loud
from testkit.driver.fake_kubelet import POLLING, Kubelet, driver_pod
from testkit.driver.in_process_driver import InProcessDriver, running, second_jvm
from testkit.driver.spark_pages import ui_pages
from testkit.streams.streams import CONTINUOUS, stream
from testkit.wait import wait_for

SOURCE, SINK = loud.values("s", 15), loud.values("k", 14)
CONF = {"spark.hadoop.fs.loud.id": "conf-4Zw-value"}
MICRO_BATCH: dict[str, Any] = {"microBatch": {"interval": "200ms"}}


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loud.compiled_sources(tmp_path_factory.mktemp("loud"))


@pytest.fixture
def with_loud(
    jar: Path,
    class_path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[str]:
    """The class path of a JVM whose log is captured, as that of the driver itself is."""
    monkeypatch.setenv("PYTHONPATH", str(loud.FOLDER), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(loud.FOLDER))
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with (tmp_path / "python.log").open("w") as log:
        logs.set_up(log)
        yield f"{class_path}:{jar}"
    root.handlers[:] = before
    root.setLevel(level)


def refs(values: dict[str, str], secrets: Path, name: str) -> dict[str, dict[str, str]]:
    folder = secrets / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values.values()):
        (folder / f"key{number}").write_text(f"{value}\n")  # as an editor leaves it
    keys = enumerate(values)
    return {option: {"name": name, "key": f"key{number}"} for number, option in keys}


def loud_flow(
    folder: Path, source: str, sink: str, fails: str = "", **spec: Any
) -> ContinuousStream:
    heard, secrets = folder / "heard", folder / "secrets"
    heard.mkdir(exist_ok=True)
    plain = {"heard": str(heard), "fails": fails}
    return stream(
        {
            "custom": {
                "format": source,
                "options": {**plain, "rowsPerSecond": "20"},
                "secretOptions": refs(SOURCE, secrets, "source"),
            }
        },
        {
            "custom": {
                "format": sink,
                "options": plain,
                "secretOptions": refs(SINK, secrets, "sink"),
            }
        },
        **{
            "trigger": MICRO_BATCH,
            "secretSparkConf": refs(CONF, secrets, "conf"),
            "observability": {"ui": True, "eventLog": (folder / "events").as_uri()},
            "sparkConf": {"spark.ui.port": "0", "spark.eventLog.compress": "false"},
            **spec,
        },
    )


def files(folder: Path) -> Iterator[tuple[str, str]]:
    """All that was written, but the Secrets, and what the data sources say that they were given."""
    for file in folder.rglob("*"):
        own = file.relative_to(folder).parts[0] in ("secrets", "heard", "events")
        if file.is_file() and not own:
            yield str(file), file.read_bytes().decode(errors="replace")


def shown(text: str) -> list[str]:
    return loud.shown(text, {**SOURCE, **SINK, **CONF})


@contextmanager
def running_loud(
    made: ContinuousStream, class_path: str, folder: Path
) -> Iterator[InProcessDriver]:
    """The stream with its tasks in the driver, whose JVM is the test's own."""
    (folder / "events").mkdir()
    environment = LocalEnvironment(folder / "checkpoint", secrets=folder / "secrets")
    with second_jvm(class_path) as jvm, running(made, jvm, environment) as driver:
        yield driver


def check_nothing_is_shown(driver: InProcessDriver, folder: Path, log: str) -> None:
    seen = {
        **ui_pages(driver),
        **dict(files(folder)),
        "log": log,
        "reports": repr(driver.reports),
        "metrics": generate_latest(driver.metrics.registry).decode(),
    }
    assert {name: shown(text) for name, text in seen.items() if shown(text)} == {}
    assert "***" in log  # it has been said


def heard(folder: Path, method: str) -> set[str]:
    return set((folder / "heard" / method).read_text().split("\n"))


def wait_heard(driver: InProcessDriver, folder: Path, *methods: str) -> None:
    def all_there() -> bool:
        driver.raise_error()
        return all((folder / "heard" / method).exists() for method in methods)

    wait_for(
        str(methods), all_there, detail=lambda: f"{driver.last!r} {[*(folder / 'heard').iterdir()]}"
    )


def parts(values: dict[str, str]) -> set[str]:
    return {part for value in values.values() for part in value.split("\n")}


SPARKS = ("loud.LoudSource", "loud.LoudSink")
OLD = ("loud.OldLoudSource", "loud.OldLoudSource")
PYTHON = ("loud_python:Loud", "loud_python:Loud")
CASES: list[Any] = [
    pytest.param(
        *SPARKS, MICRO_BATCH, "planInputPartitions", "createStreamingWriterFactory", id="Java"
    ),
    pytest.param(
        *SPARKS, CONTINUOUS, "planInputPartitions", "createStreamingWriterFactory",
        id="Java, continuous",
    ),
    pytest.param(
        *OLD, MICRO_BATCH, "getBatch", "addBatch",
        id="Java, the first interface",
    ),
    pytest.param(*PYTHON, MICRO_BATCH, "read", "commit", id="Python"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "sink", "trigger", "reads", "writes"), CASES)
def test_no_value_is_shown(
    source: str,
    sink: str,
    trigger: dict[str, Any],
    reads: str,
    writes: str,
    with_loud: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And the data sources get all of them."""
    made = loud_flow(tmp_path, source, sink, trigger=trigger)
    with running_loud(made, with_loud, tmp_path) as driver:
        wait_heard(driver, tmp_path, reads, writes)
        driver.wait_ready()
        assert parts(SOURCE) <= heard(tmp_path, reads)
        assert parts(SINK) <= heard(tmp_path, writes)
        session = driver.runtime.session
        assert session is not None
        hadoop = session.sparkContext._jsc.hadoopConfiguration()
        assert hadoop.get("fs.loud.id") == CONF["spark.hadoop.fs.loud.id"]
        out, err = capfd.readouterr()
        check_nothing_is_shown(driver, tmp_path, out + err)
    events = [file for file in (tmp_path / "events").rglob("events_*") if file.stat().st_size]
    assert events  # whole, now that Spark has stopped
    assert [file for file in events if shown(file.read_text())] == []


@pytest.mark.parametrize(
    ("source", "sink", "fails"),
    [
        (*SPARKS, "planInputPartitions"),
        (*SPARKS, "next"),
        (*OLD, "createSource"),
        (*PYTHON, "schema"),
        (*PYTHON, "write"),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in (
                (*SPARKS, "inferSchema"),
                (*SPARKS, "createWriter"),
                (*OLD, "addBatch"),
                (*PYTHON, "read"),
            )
        ),
    ],
)
def test_a_failure_shows_no_value(
    source: str,
    sink: str,
    fails: str,
    with_loud: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The event log does: Spark writes an exception into it as it was thrown (security.md)."""
    made = loud_flow(tmp_path, source, sink, fails)
    with running_loud(made, with_loud, tmp_path) as driver:
        driver.wait("failed", lambda report: report.last_failure is not None)
        wait_heard(driver, tmp_path, *([] if fails == "next" else [fails]))
        out, err = capfd.readouterr()
        check_nothing_is_shown(driver, tmp_path, out + err)


def test_an_executor_shows_no_value(
    class_path: str,
    with_loud: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Nor its pod."""
    for name in ("events", "logs"):
        (tmp_path / name).mkdir()
    kubelet = Kubelet(with_loud, tmp_path / "logs")
    kubelet.add("numbers-driver-0", {})
    kubelet.secrets |= {name: {"data": {}} for name in ("source", "sink", "conf")}
    try:
        made = loud_flow(tmp_path, *SPARKS, sparkConf={"spark.ui.port": "0", **POLLING})
        pod = replace(driver_pod(kubelet, tmp_path), secrets=tmp_path / "secrets")
        api = Api(kubelet.url, "payments")
        with second_jvm(with_loud) as jvm, running(made, jvm, pod, api=api) as driver:
            wait_heard(driver, tmp_path, "createReader", "createWriter")
            driver.wait_ready()
            out, err = capfd.readouterr()
            check_nothing_is_shown(driver, tmp_path, out + err)
            (log,) = (tmp_path / "logs").glob("*.log")
            assert "createReader has" in log.read_text()
            assert shown(repr(kubelet.made)) == []
    finally:
        kubelet.close()
