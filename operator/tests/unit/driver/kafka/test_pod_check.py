"""What `penstock doctor` runs inside the driver's container."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.contract import pod_check as contract
from penstock.contract.pod_check import Reach
from penstock.driver.kafka import pod_check


@pytest.fixture
def listening() -> Iterator[int]:
    """A port at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def outcome(server: str) -> Reach:
    (found,) = pod_check.check_pod([server]).brokers
    return found.outcome


def test_it_finds_a_broker_or_a_closed_port(listening: int, closed: int) -> None:
    assert outcome(f"127.0.0.1:{listening}") is Reach.CONNECTED
    assert outcome(f"PLAINTEXT://127.0.0.1:{listening}") is Reach.CONNECTED
    assert outcome(f"127.0.0.1:{closed}") is Reach.REFUSED


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (socket.EAI_NONAME, Reach.NAME_UNKNOWN),
        (socket.EAI_AGAIN, Reach.NAME_SERVER_SILENT),
    ],
)
def test_an_unknown_name_is_not_a_silent_name_server(
    code: int, expected: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codes are those of the C library."""

    def fail(*_: object, **__: object) -> object:
        raise socket.gaierror(code, "")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert outcome("kafka:9092") is expected


def test_it_measures_the_volume(tmp_path: Path) -> None:
    found = pod_check.check_pod([], str(tmp_path))
    assert 0 < found.volume_used_bytes < found.volume_bytes
    assert pod_check.check_pod([], str(tmp_path / "absent")).volume_bytes == 0


def test_a_process_prints_what_the_command_reads(listening: int) -> None:
    """As in the container; without the models, which would take the driver's memory."""
    words = contract.command([f"127.0.0.1:{listening}"])
    done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=60)
    found = contract.parse(done.stdout)
    assert (done.returncode, found.version) == (0, __version__)
    assert found.brokers[0].outcome is Reach.CONNECTED
    imported = f"import sys, {contract.MODULE}; print('pydantic' in sys.modules)"
    found_models = subprocess.check_output([sys.executable, "-c", imported], text=True, timeout=60)
    assert found_models == "False\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"version": "1", "brokers": [{"server": "a"}]})]
)
def test_other_output_is_refused(text: str) -> None:
    """Of an image without the module, or with another version of it."""
    with pytest.raises(ValueError, match="not the output of"):
        contract.parse(text)
