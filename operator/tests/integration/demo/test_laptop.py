"""`make demo` on this machine, with shorter times to watch."""

from __future__ import annotations

import pytest

from demo import laptop
from testkit.driver.class_archive import driver_environment
from testkit.kafka.jars import connector_jars, kafka_jars


def test_the_demo_loses_no_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with exit code 0, and says what it counted and what to try next."""
    monkeypatch.setenv("PENSTOCK_CONNECTOR_JARS", str(connector_jars()))
    monkeypatch.setenv("PENSTOCK_KAFKA_JARS", str(kafka_jars()))
    for name, value in driver_environment(f"{connector_jars()}/*").items():
        monkeypatch.setenv(name, value)
    code = laptop.main(["--watch-seconds", "2"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "99th percentile" in said
    assert "Killing the driver" in said
    assert "Running again after" in said
    assert " 0 lost, 0 wrong, " in said
    assert "make demo-cluster" in said
