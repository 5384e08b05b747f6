"""The probes and the metrics over HTTP."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator

import pytest

from penstock.contract.driver_report import DriverReport, QueryState
from penstock.driver.reporting.http_server import Health, metrics_page, probe_pages, serve
from penstock.driver.reporting.metrics import Metrics


@pytest.fixture
def served() -> Iterator[tuple[Health, Metrics, http.client.HTTPConnection]]:
    health, metrics = Health(), Metrics()
    server = serve(0, {**probe_pages(health), **metrics_page(metrics)})
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
    yield health, metrics, connection
    connection.close()
    server.shutdown()
    server.server_close()


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


Served = tuple[Health, Metrics, http.client.HTTPConnection]


def test_live_while_the_loop_runs(served: Served) -> None:
    health, _, connection = served
    assert get(connection, "/livez")[0] == 200
    health.last_iteration_at = time.monotonic() - health.iteration_timeout - 1
    assert get(connection, "/livez")[0] == 503


def test_ready_only_when_set_and_alive(served: Served) -> None:
    health, _, connection = served
    assert get(connection, "/readyz")[0] == 503
    health.ready = True
    assert get(connection, "/readyz")[0] == 200
    health.last_iteration_at = time.monotonic() - health.iteration_timeout - 1
    assert get(connection, "/readyz")[0] == 503


@pytest.mark.parametrize(("path", "is_probe"), [("/livez", 1), ("/readyz", 1), ("/metrics", 0)])
def test_the_last_probe_shows_that_the_kubelet_lives(
    served: Served, path: str, is_probe: int
) -> None:
    health, _, connection = served
    health.probed_at = 0.0
    get(connection, path)
    assert bool(health.probed_at) == bool(is_probe)


def test_not_ready_while_the_jvm_does_not_answer(served: Served) -> None:
    """The loop waits for the JVM then, and cannot say so itself."""
    health, _, connection = served
    health.ready, health.jvm_answers = True, False
    assert get(connection, "/readyz")[0] == 503
    assert get(connection, "/livez")[0] == 200


@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
def test_the_probes_of_an_ipv6_pod_are_answered(served: Served, client: str) -> None:
    if client == "::1" and not socket.has_dualstack_ipv6():  # pragma: no cover
        client = "127.0.0.1"  # a machine without IPv6 serves IPv4 as before
    connection = http.client.HTTPConnection(client, served[2].port)
    assert get(connection, "/livez")[0] == 200


def test_metrics(served: Served) -> None:
    _, metrics, connection = served
    metrics.set_report(DriverReport(spec_hash="", state=QueryState.RUNNING))
    lines = get(connection, "/metrics")[1].splitlines()
    assert 'penstock_driver_state{state="Running"} 1.0' in lines


def test_nothing_else_is_served(served: Served) -> None:
    assert get(served[2], "/etc/passwd")[0] == 404


def test_in_a_pod_the_port_of_the_probes_has_no_metrics() -> None:
    """So that a network policy can open one and close the other."""
    assert not set(probe_pages(Health())) & set(metrics_page(Metrics()))
