"""The driver's calls to the Kubernetes API, against a fake API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from penstock.cluster.rest_api import ApiError
from penstock.contract import naming
from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.failures import DriverError
from penstock.driver.kubernetes.api import Api
from penstock.driver.reporting.publisher import ReportPublisher, as_annotation
from penstock.driver.spark.executor_pods import api_errors, remove_executors


class FakeApi:
    """Pods by name, with their labels and annotations."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.streams: dict[str, dict[str, Any]] = {}
        """Their specs by path."""
        self.deleted: list[str] = []
        self.lost: set[str] = set()
        """Pods whose node is lost: only a grace period of 0 removes them."""
        self.failures = 0
        self.patched = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path in api.streams:
                    self._answer(200, {"spec": api.streams[self.path]})
                    return
                query = parse_qs(urlsplit(self.path).query)
                wanted = dict(pair.split("=", 1) for pair in query["labelSelector"][0].split(","))
                items = [
                    {"metadata": {"name": name, **pod}}
                    for name, pod in api.pods.items()
                    if wanted.items() <= pod["labels"].items()
                ]
                self._answer(200, {"items": items})

            def do_DELETE(self) -> None:
                body = self._body()
                name = urlsplit(self.path).path.rpartition("/")[2]
                if name in api.lost and body["gracePeriodSeconds"] > 0:
                    self._answer(200, {})
                    return
                if api.pods.pop(name, None) is None:
                    self._answer(404, {})
                    return
                api.deleted.append(name)
                self._answer(200, {})

            def do_PATCH(self) -> None:
                body = self._body()
                if api.failures:
                    api.failures -= 1
                    self._answer(503, {})
                    return
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                pod = api.pods[urlsplit(self.path).path.rpartition("/")[2]]
                pod.setdefault("annotations", {}).update(body["metadata"]["annotations"])
                self._answer(200, {})
                api.patched.set()

            def _body(self) -> Any:
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def _answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def client(self) -> Api:
        return Api(f"http://127.0.0.1:{self.server.server_address[1]}", "payments", lambda: "token")

    def add(self, name: str, component: str, stream: str = "numbers") -> None:
        self.pods[name] = {"labels": naming.stream_labels(stream, component)}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    fake = FakeApi()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    fake.thread.join()


def test_only_the_executors_of_the_stream_are_removed(api: FakeApi) -> None:
    api.add("numbers-exec-1", "executor")
    api.add("numbers-exec-2", "executor")
    api.add("numbers-driver-0", "driver")
    api.add("others-exec-1", "executor", stream="others")
    assert remove_executors(api.client(), "numbers") == ["numbers-exec-1", "numbers-exec-2"]
    assert set(api.pods) == {"numbers-driver-0", "others-exec-1"}


def test_an_executor_whose_node_is_lost_is_removed_by_force(api: FakeApi) -> None:
    """Else no session would start until somebody removes the pod."""
    api.add("numbers-exec-1", "executor")
    api.lost = {"numbers-exec-1"}
    assert remove_executors(api.client(), "numbers", timeout=0.3) == ["numbers-exec-1"]
    assert api.pods == {}


def test_the_proxy_of_the_environment_is_not_used(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for what is outside: no list of exceptions can name the cluster's own network."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    api.add("numbers-exec-1", "executor")
    assert api.client().executors("numbers") == ["numbers-exec-1"]


def test_the_stream_is_read_from_the_api_servers_cache(api: FakeApi) -> None:
    streams = "/apis/penstock.dev/v1alpha1/namespaces/payments/continuousstreams"
    api.streams[f"{streams}/numbers?resourceVersion=0"] = {"suspend": True}
    assert api.client().stream("numbers").suspended


@pytest.mark.proves("failures.md#the-api-server-is-unreachable")
def test_an_api_server_that_is_away_is_waited_for(api: FakeApi) -> None:
    """By a transient failure that says so. An exit would only add the kubelet's delay."""
    client = api.client()
    api.server.server_close()
    with pytest.raises(DriverError) as raised, api_errors():
        client.executors("numbers")
    failure = raised.value.failure
    assert (failure.reason, failure.permanent) == ("ApiServerUnreachable", False)


def test_a_refusal_of_the_api_server_is_not_its_absence(api: FakeApi) -> None:
    api.failures = 1
    with pytest.raises(DriverError) as raised, api_errors():
        api.client().annotate("numbers-driver-0", "a", "b")
    assert raised.value.failure.reason == "ApiServerRefused"
    assert "503" in raised.value.failure.message


def test_a_token_that_is_rejected_has_a_reason_of_its_own() -> None:
    """It does not count as an attempt of the stream: restart.maxAttempts is about the query."""
    with pytest.raises(DriverError) as raised, api_errors():
        raise ApiError(401, "Unauthorized")
    failure = raised.value.failure
    assert (failure.reason, failure.recoverable) == ("ApiServerUnauthorized", True)


def test_deleting_a_missing_pod_is_no_error(api: FakeApi) -> None:
    api.client().delete("numbers-exec-1", 1)
    assert api.deleted == []


def test_other_status_codes_raise(api: FakeApi) -> None:
    api.failures = 1
    with pytest.raises(ApiError, match="503"):
        api.client().annotate("numbers-driver-0", "a", "b")


def test_a_token_that_cannot_be_read_is_like_no_answer() -> None:
    def token() -> str:
        raise FileNotFoundError("token")

    with pytest.raises(ApiError) as raised:
        Api("http://127.0.0.1:1", "payments", token).pod("numbers-driver-0")
    assert raised.value.code == 0


def test_a_failed_publication_is_retried(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.driver.reporting.publisher._RETRY_SECONDS", 0.01)
    api.add("numbers-driver-0", "driver")
    api.failures = 2
    report = DriverReport(spec_hash="hash", state=QueryState.RUNNING, epoch=3)
    ReportPublisher(api.client(), "numbers-driver-0").publish(report)
    assert api.patched.wait(30)
    annotation = api.pods["numbers-driver-0"]["annotations"][naming.ANNOTATION_REPORT]
    assert annotation == as_annotation(report)
    assert DriverReport.model_validate_json(annotation) == report


@pytest.mark.proves("failures.md#somebody-deletes-or-changes-an-object-of-the-stream")
@pytest.mark.parametrize("changed", [None, "{", "another"])
def test_a_report_that_somebody_has_changed_is_published_again(
    api: FakeApi, changed: str | None
) -> None:
    """Also if nothing in it has changed since: an idle query reports nothing new for hours."""
    api.add("numbers-driver-0", "driver")
    report = DriverReport(spec_hash="hash", state=QueryState.RUNNING, epoch=3)
    publisher = ReportPublisher(api.client(), "numbers-driver-0")
    publisher.publish(report)
    assert api.patched.wait(30)
    publisher.flush(30)
    for on_pod, again in ((as_annotation(report), False), (changed, True)):
        api.patched.clear()
        publisher.check_published(on_pod)
        assert api.patched.wait(30 if again else 0.3) is again
